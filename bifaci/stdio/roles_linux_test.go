package stdio

import "maps"

func systemRoles() map[string]func() int {
	roles := unixRoles()
	maps.Copy(roles, map[string]func() int{"scarce": playScarce})
	return roles
}
