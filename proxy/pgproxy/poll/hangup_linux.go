package poll

// OnHangUp has f called when the other end has hung up, at least for what it
// sends: at once if it has, else on the loop. What it sent before may still be
// unread. f must not block.
func (c *Conn) OnHangUp(f func()) {
	c.in.mu.Lock()
	c.onHangUp = f
	hungUp := c.hungUp
	c.in.mu.Unlock()
	if hungUp {
		f()
	}
}

// hangsUp is called by the loop.
func (c *Conn) hangsUp() {
	c.in.mu.Lock()
	f, again := c.onHangUp, c.hungUp
	c.hungUp = true
	c.in.mu.Unlock()
	if f != nil && !again {
		f()
	}
}
