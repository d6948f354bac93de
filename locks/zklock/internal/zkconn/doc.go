// Package zkconn is one session of ZooKeeper that knows how long it lasts.
//
// A zk.Conn tells neither when a server was heard last, nor which timeout the
// session got; it goes on with another session when its own is over; and it
// leaves a server that hangs only when the session is lost. So this package reads
// along on its connections:
//
//	Session  opens the session, renews it, closes it
//	wire     a connection: when requests were sent and answered; cuts it if one is not
//	Call     a request that was started, of a client that knows no contexts
//	Watch    a function that is told of one event of a node
//	Visit    a few requests without a session to keep
//
// The deadline is 2/3 of the session's timeout (which the server decides) after
// the last request was sent that ZooKeeper's leader is known to have seen. Pings do
// not count, as they do for the client: a member that is cut off from its leader
// answers them for seconds (syncLimit), while the leader lets the session expire.
// So the session asks the leader, by a sync, each quarter of its timeout. The third
// that is left is for the half tick after which a member tells the leader whom it
// has heard of, and for clocks that run at different rates.
package zkconn
