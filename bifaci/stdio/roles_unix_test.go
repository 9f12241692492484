//go:build unix

package stdio

func unixRoles() map[string]func() int {
	return map[string]func() int{
		"broken output":   playBrokenOutput,
		"broken errors":   playBrokenErrors,
		"unclaimed":       playUnclaimed,
		"pipe signal":     playPipeSignal,
		"flags":           playFlags,
		"inherited flags": playInheritedFlags,
		"no errors":       playNoErrors,
	}
}
