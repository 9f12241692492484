package conform

import (
	"strings"
	"time"
)

func endingChecks() []check {
	return []check{
		{id: "end-idle", rule: "R-2.30", title: "the end of the input ends the process with status 0", run: endIdle},
		{id: "end-complete", rule: "R-2.30", title: "requests that were sent completely are answered after the end of the input", run: endComplete},
		{id: "end-cut", rule: "R-2.30", title: "a request whose body is cut off ends with CONNECTION_CLOSED/environment", run: endCut},
		{id: "end-waiting", rule: "R-2.30",
			title: "of the requests in line the complete ones are served, the cut ones answered CONNECTION_CLOSED", run: endWaiting},
		{id: "end-no-credit", rule: "R-2.30", title: "a wait for credit ends with the input: ERR CONNECTION_CLOSED, no hang", run: endNoCredit},
		{id: "closed-output", rule: "R-2.33", title: "a closed output ends the process with a status of its own, not by a signal", run: closedOutput},
		{id: "closed-stderr", rule: "R-2.22", title: "a closed standard error changes nothing", run: closedStderr},
		{id: "stray-print", rule: "R-2.20", title: "what a handler prints goes to standard error and not between the frames",
			needs: []string{"print"}, run: strayPrint},
	}
}

func endIdle(t *trial) {
	s := t.live(defaultLimits())
	s.goesOn()
	s = t.start(defaultLimits())
	s.hello()
	s.finish()
}

// endComplete ends the input while more waits to be written than a pipe holds, as the host does not read.
func endComplete(t *trial) {
	s := t.live(defaultLimits())
	s.pause()
	var all []*request
	want := randomBytes(250_000)
	for range 20 {
		all = append(all, s.call(identityCap, want))
	}
	s.closeInput()
	select { // whoever drops answers has the time to do so; whoever does not waits for the host
	case <-s.child.Done():
	case <-time.After(100 * time.Millisecond):
	}
	s.resume()
	for _, r := range all {
		r.wantAnswer(want)
	}
	s.finish()
}

func endCut(t *trial) {
	s := t.live(defaultLimits())
	open, cut := s.request(identityCap), s.request(identityCap)
	cut.open("s", "media:").give(x)
	cut.chunks(1)
	s.closeInput()
	open.wantErr("CONNECTION_CLOSED", "environment")
	cut.wantErr("CONNECTION_CLOSED", "environment")
	s.finish()
}

func endWaiting(t *trial) {
	s, holder, _ := t.occupied(defaultLimits())
	whole, half := s.call(identityCap, []byte("whole")), s.request(identityCap)
	whole.log("queued")
	half.open("s", "media:")
	half.log("queued")
	s.closeInput()
	holder.wantErr("CONNECTION_CLOSED", "environment")
	whole.wantAnswer([]byte("whole"))
	half.wantErr("CONNECTION_CLOSED", "environment")
	s.finish()
}

func endNoCredit(t *trial) {
	s, r := t.blocked()
	s.closeInput()
	r.wantErr("CONNECTION_CLOSED", "environment")
	s.finish()
}

func closedOutput(t *trial) {
	s := t.live(defaultLimits())
	open := s.request(identityCap)
	open.open("s", "media:").give(x)
	open.chunks(1)
	if err := s.child.Stdout.Close(); err != nil {
		t.fail("the host can close its end of the pipe", "%v", err)
	}
	// Whoever answers notices, though not at once: a process that is being forked may hold a copy of our end for a moment.
	for end := time.Now().Add(s.patience); time.Now().Before(end); time.Sleep(pollInterval) {
		s.send(heartbeatFrame(""))
		select {
		case <-s.child.Done():
			end = time.Time{}
		default:
		}
	}
	state := s.awaitExit()
	t.ensure(state.ExitCode() > 0, nil, "a status of its own that is not 0", "%v", state)
}

func closedStderr(t *trial) {
	s := t.start(defaultLimits())
	if err := s.child.Stderr.Close(); err != nil {
		t.fail("the host can close its end of the pipe", "%v", err)
	}
	s.hello()
	s.verify()
	s.send(policyFrame("online", true))
	if name := t.roles["print"]; name != "" {
		s.call(name, []byte("nobody reads this")).wantAnswer([]byte("nobody reads this"))
	}
	s.call(nobodysCap, nil).end()
	s.goesOn()
}

func strayPrint(t *trial) {
	s := t.live(defaultLimits())
	const words = "conform: printed where frames are"
	for range 20 {
		s.call(t.roles["print"], []byte(words)).wantAnswer([]byte(words))
	}
	s.goesOn()
	if said := s.wholeStderr(); strings.Count(said, words) < 20 {
		t.fail("the printed words on standard error, 20 times", "%d times", strings.Count(said, words))
	}
}
