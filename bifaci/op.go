package bifaci

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
)

// Op is a handler as a value with a description, beside the plain function form. Perform is called once per value.
type Op interface {
	Perform(ctx context.Context, dry *DryContext, wet *WetContext) error
	Metadata() OpMetadata
}

// OpMetadata describes an [Op].
type OpMetadata struct{ Name, Description string }

// WetKeyRequest is the key of the [*Request] in a [WetContext].
const WetKeyRequest = "request"

// funcOp is a plain function as an Op.
type funcOp struct {
	name string
	fn   Handler
}

func (o funcOp) Perform(ctx context.Context, _ *DryContext, wet *WetContext) error {
	r, err := WetGet[*Request](wet, WetKeyRequest)
	if err != nil {
		return err
	}
	return o.fn(ctx, r)
}

func (o funcOp) Metadata() OpMetadata { return OpMetadata{Name: o.name} }

// DryContext holds values that survive JSON, and two control flags. It is empty at dispatch and fresh for every request. The
// zero value is ready. Safe for concurrent use.
type DryContext struct {
	mu      sync.Mutex
	values  map[string]json.RawMessage
	dryRun  bool
	aborted bool
	reason  string
}

// Set keeps v under key, as JSON.
func (d *DryContext) Set(key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("dry context: key %q: %w", key, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.values == nil {
		d.values = make(map[string]json.RawMessage)
	}
	d.values[key] = b
	return nil
}

// SetDryRun sets whether the operation should only say what it would do.
func (d *DryContext) SetDryRun(on bool) {
	d.mu.Lock()
	d.dryRun = on
	d.mu.Unlock()
}

// IsDryRun reports whether the operation should only say what it would do.
func (d *DryContext) IsDryRun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dryRun
}

// Abort notes that the operation gave up, and why. The first reason stands.
func (d *DryContext) Abort(reason string) {
	d.mu.Lock()
	if !d.aborted {
		d.aborted, d.reason = true, reason
	}
	d.mu.Unlock()
}

// Aborted reports whether Abort was called, and with which reason.
func (d *DryContext) Aborted() (reason string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reason, d.aborted
}

// LookupError says that a context holds no value of the wanted type under a key.
type LookupError struct{ Key, Want, Found string }

// Error names key, wanted type and what was found.
func (e *LookupError) Error() string {
	return fmt.Sprintf("key %q: want %s, found %s", e.Key, e.Want, e.Found)
}

// typeName is T as Go writes it, also when it is an interface.
func typeName[T any]() string { return reflect.TypeFor[T]().String() }

// DryGet returns the value under key as a T; the error is a [*LookupError].
func DryGet[T any](d *DryContext, key string) (v T, err error) {
	d.mu.Lock()
	b, ok := d.values[key]
	d.mu.Unlock()
	if !ok {
		return v, &LookupError{key, typeName[T](), "nothing"}
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, &LookupError{key, typeName[T](), "the JSON " + string(b)}
	}
	return v, nil
}

// WetContext holds live values by key, among them the [*Request]. It is fresh for every request. The zero value is ready.
// Safe for concurrent use.
type WetContext struct {
	mu     sync.Mutex
	values map[string]any
}

// Set keeps v under key.
func (w *WetContext) Set(key string, v any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.values == nil {
		w.values = make(map[string]any)
	}
	w.values[key] = v
}

// WetGet returns the value under key as a T; the error is a [*LookupError].
func WetGet[T any](w *WetContext, key string) (v T, err error) {
	w.mu.Lock()
	found, ok := w.values[key]
	w.mu.Unlock()
	if !ok {
		return v, &LookupError{key, typeName[T](), "nothing"}
	}
	v, ok = found.(T)
	if !ok {
		return v, &LookupError{key, typeName[T](), fmt.Sprintf("%T", found)}
	}
	return v, nil
}
