//go:build unix

package stdio

// canCancelReads: only the poller can wake a read, a blocking read(2) cannot be cancelled.
const canCancelReads = false

func cancelRead(*In) {}
