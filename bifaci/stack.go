package bifaci

// handlerStack is how much stack a handler is given at once, bytes: what the way through a stream's Next takes, and a little more
// than fits a fresh goroutine.
const handlerStack = 1536

// growStack makes the stack of a handler's goroutine large enough while there is next to nothing on it. A fresh goroutine has
// 2 KiB, reading an argument takes more, and a stack that grows at that depth is walked frame by frame, which costs a unary
// request a tenth of its time. The memory is the same: the stack would have grown anyway.
//
//go:noinline
func growStack(seed int) byte {
	var room [handlerStack]byte
	room[seed&1023] = byte(seed)
	return room[(seed+1)&1023]
}
