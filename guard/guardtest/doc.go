// Package guardtest proves guards of the rule of package guard.
//
// It has the rule as data, so that every implementation, in whatever language,
// runs through the same rows: [Cases] and [AdoptCases] (what is claimed,
// checked and adopted, what comes of it) and [Texts] (the text form of a
// token). [Exercise] is the conformance suite: it drives any guarded resource
// through the rows and through races, and shows that it keeps the invariants
// I1, I2, I3 and I5. [Model] is the rule once more, told from the history of
// grants instead of from a mark, to compare with.
package guardtest
