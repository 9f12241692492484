// Package failure holds what the two ends of a link say about a failure: a code, an attribution class, a message
// and, where one is to blame, the argument (spec/wire.md section 10, spec/runtime.md 6.7).
//
// A reader meets first [Failure], the typed error that becomes an ERR frame; [Class], who has to act; and
// [CancelReason], the words a CANCEL carries and the terminal they turn into. Nothing here blocks and nothing has state.
package failure
