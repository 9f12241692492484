package stages

import (
	"errors"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Parcel is a frame between two stages that run on their own, with the memory it needs. Who takes it owns it. The runtime
// passes the same things from call to call and makes no parcels.
type Parcel struct {
	Frame frame.Frame
	Block *Block // holds what Frame's slices alias, or nil when the garbage collector does
	Flow  *Flow  // whose ids, seq and terminal gate hold for an outgoing frame; nil for one that came in
}

// errDry says that a core which is fed by hand has used up what there was. It is no end.
var errDry = errors.New("stages: nothing there now")
