package frame

// TruncatedPrefix is the error of an input that ended after n of the four bytes of a length prefix. It wraps
// io.ErrUnexpectedEOF.
func TruncatedPrefix(n int) *SyntaxError {
	return truncatedf(TokenTruncatedPrefix, "input ended after %d of the %d bytes of a length prefix", n, PrefixSize)
}

// TruncatedBody is the error of an input that ended after n of the size bytes of a frame body. It wraps
// io.ErrUnexpectedEOF.
func TruncatedBody(n, size int) *SyntaxError {
	return truncatedf(TokenTruncatedBody, "input ended after %d of the %d bytes of a frame body", n, size)
}
