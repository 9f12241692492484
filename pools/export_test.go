package pools

// Looks is how many places of the line decisions have looked at so far.
func (t *Table) Looks() uint64 { return t.line.looks }
