// Package socket is what a proxy needs of a connection beyond package net.
package socket
