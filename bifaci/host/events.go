package host

// observe tells who wants to know about the steps of a cartridge.
func (h *Host) observe(m *member) {}
