//go:build !linux

package stdio

// Other systems size their pipes themselves.

func pipeCapacity(uintptr) (bytes int, ok bool) { return 0, false }

func pipeQueued(uintptr) int { return 0 }

func growPipe(uintptr, int) bool { return false }
