// The switch between two fibres: the registers that a function must leave as they are go onto the one's stack, and come
// from the other's.
#include "accl_fibre.h"

#if defined(__x86_64__)
asm(R"(
    .text
    .hidden accl_fibre_switch
    .globl accl_fibre_switch
    .type accl_fibre_switch, @function
accl_fibre_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size accl_fibre_switch, .-accl_fibre_switch
)");
#endif
