package stdio

import "syscall"

// writeDescriptor1 goes behind the back of package os, to the handle that C code would find.
func writeDescriptor1(p []byte) error {
	handle, err := syscall.GetStdHandle(syscall.STD_OUTPUT_HANDLE)
	if err != nil {
		return err
	}
	for len(p) > 0 {
		n, err := syscall.Write(handle, p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
