//go:build !linux

package stdio

import "testing"

// openFiles would count the descriptors of this process; here nobody tells.
func openFiles(*testing.T) int { return 0 }
