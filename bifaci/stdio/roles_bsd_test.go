//go:build unix && !linux

package stdio

func systemRoles() map[string]func() int { return unixRoles() }
