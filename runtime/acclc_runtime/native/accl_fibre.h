// What a fibre has to itself: a stack, and the place in the code where its fibre goes on.
#pragma once

#include <stddef.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace accl_rank {

// Cheaper than swapcontext, which asks the kernel for the signal mask.
#if defined(__x86_64__)
extern "C" void accl_fibre_switch(void** save, void* load);

struct Context {
    void* top = nullptr;

    bool start(char* stack, size_t bytes, void (*entry)()) {
        void** words = (void**)(stack + bytes);
        *--words = nullptr;  // whom the entry would return to: it does not
        *--words = (void*)entry;
        for (int saved = 0; saved < 6; ++saved) *--words = nullptr;
        top = words;
        return true;
    }

    void go(Context& from) { accl_fibre_switch(&from.top, top); }
};
#else
struct Context {
    ucontext_t context;

    bool start(char* stack, size_t bytes, void (*entry)()) {
        if (getcontext(&context) != 0) return false;
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = bytes;
        context.uc_link = nullptr;
        makecontext(&context, entry, 0);
        return true;
    }

    void go(Context& from) { swapcontext(&from.context, &context); }
};
#endif

}  // namespace accl_rank
