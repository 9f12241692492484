//go:build !linux || stdio_portable

package stdio

// joinBytes is up to where copying small buffers together is cheaper than a system call for each.
const joinBytes = 64 << 10

// vector is where small buffers are joined, kept for the next call.
type vector []byte

// writeVector joins neighbours that fit into joinBytes and writes larger buffers as they are.
func (o *Out) writeVector(bufs [][]byte) (written int64, err error) {
	o.vector = o.vector[:0]
	for _, buf := range bufs {
		if len(o.vector)+len(buf) <= joinBytes {
			o.vector = append(o.vector, buf...)
			continue
		}
		n, err := o.flushVector()
		written += n
		if err != nil {
			return written, err
		}
		if len(buf) < joinBytes {
			o.vector = append(o.vector, buf...)
			continue
		}
		large, err := o.end.file.Write(buf)
		written += int64(large)
		if err != nil {
			return written, err
		}
	}
	n, err := o.flushVector()
	return written + n, err
}

func (o *Out) flushVector() (int64, error) {
	if len(o.vector) == 0 {
		return 0, nil
	}
	n, err := o.end.file.Write(o.vector)
	o.vector = o.vector[:0]
	return int64(n), err
}
