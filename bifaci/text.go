package bifaci

import "strings"

// validText makes s valid UTF-8, as every text on the wire must be.
func validText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
