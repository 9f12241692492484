package stdio

import "errors"

// cleanup is a list of steps that undo what was done, the last one first.
type cleanup []func() error

func (c *cleanup) add(step func() error) {
	*c = append(*c, step)
}

// run takes every step, whatever the others return.
func (c *cleanup) run() error {
	var err error
	for i := len(*c) - 1; i >= 0; i-- {
		err = errors.Join(err, (*c)[i]())
	}
	*c = nil
	return err
}
