package guard

// Entry is one admission that is being made use of: whoever holds it is
// inside. As long as it is, no newer claim whose admission ends this one has
// returned, so what is written inside is written under a current token (I1).
type Entry interface {
	// Exit ends the entry. It is called exactly once, when nothing will be
	// written under this entry any more.
	Exit()
}
