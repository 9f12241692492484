package stdio

import "syscall"

const getTermios = syscall.TCGETS
