package host_test

import (
	"os"
	"reflect"
	"testing"

	"go.uber.org/goleak"
)

// metaType is what maps inside a frame are decoded into.
var metaType = reflect.TypeFor[map[string]any]()

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(child(mode))
	}
	goleak.VerifyTestMain(m)
}
