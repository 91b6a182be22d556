// Calls of a communicator from Python, without the cost of ctypes: plain C functions that Python makes callables of.
//
// Python's headers need not be installed: what is used is of its stable interface (3.11), declared here.
#include "accl_join.h"

#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

extern "C" {

typedef struct _object PyObject;
typedef struct _ts PyThreadState;
typedef intptr_t Py_ssize_t;
typedef struct {
    void* buf;
    PyObject* obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char* format;
    Py_ssize_t* shape;
    Py_ssize_t* strides;
    Py_ssize_t* suboffsets;
    void* internal;
} Py_buffer;
typedef struct {
    const char* name;
    PyObject* (*method)(PyObject*, PyObject* const*, Py_ssize_t);
    int flags;
    const char* doc;
} PyMethodDef;
enum { PyBUF_WRITABLE = 1, PyBUF_FORMAT = 4, PyBUF_C_CONTIGUOUS = 0x38, METH_FASTCALL = 0x80 };

int PyObject_GetBuffer(PyObject*, Py_buffer*, int);
void PyBuffer_Release(Py_buffer*);
PyThreadState* PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState*);
int PyGILState_Ensure(void);
void PyGILState_Release(int);
int PyErr_CheckSignals(void);
PyObject* PyErr_Occurred(void);
void PyErr_Clear(void);
void* PyLong_AsVoidPtr(PyObject*);
unsigned long PyLong_AsUnsignedLong(PyObject*);
PyObject* PyLong_FromLong(long);

}  // extern "C"

namespace {

// A collective with an operator, as a user calls it: key of the calls that were prepared.
struct Family {
    uint32_t in_place = 0;  // 0: never; 1: same; 2: the input lies in the output; 3: the output lies in the input
    uint64_t position = 0;
    uint64_t input_units = 0;
};

struct Key {
    uint32_t family;
    uint32_t format;
    uint64_t input_bytes;
    uint64_t output_bytes;
    bool in_place;

    bool operator==(const Key& o) const {
        return family == o.family && format == o.format && input_bytes == o.input_bytes &&
               output_bytes == o.output_bytes && in_place == o.in_place;
    }
};

struct Hash {
    size_t operator()(const Key& k) const {
        uint64_t h = k.input_bytes * 0x9e3779b97f4a7c15ull ^ k.output_bytes * 0xc2b2ae3d27d4eb4full;
        h ^= ((uint64_t)k.family << 32 | k.format << 1 | k.in_place) * 0x165667b19e3779f9ull;
        return h ^ h >> 29;
    }
};

struct Buffer {
    Py_buffer view = {};
    bool held = false;

    bool take(PyObject* object, int flags) {
        held = PyObject_GetBuffer(object, &view, flags) == 0;
        if (!held) PyErr_Clear();
        return held;
    }

    ~Buffer() {
        if (held) PyBuffer_Release(&view);
    }
};

// A one-letter element type in this machine's order; 0: another.
uint32_t format_of(const Py_buffer& view) {
    const char* const f = view.format;
    if (f == nullptr) return 'B';
    return f[0] != 0 && f[1] == 0 ? (uint32_t)(unsigned char)f[0] : 0;
}

// -1: not in place; 1: it is; 0: the buffers overlap in another way.
int place(const Family& family, const Py_buffer& in, const Py_buffer& out) {
    const char* const a = (const char*)in.buf;
    const char* const b = (const char*)out.buf;
    if (a + in.len <= b || b + out.len <= a) return -1;
    const uint64_t unit = (uint64_t)in.len / family.input_units;
    if (family.in_place == 1) return a == b && in.len == out.len;
    if (family.in_place == 2) return a == b + family.position * unit;
    if (family.in_place == 3) return b == a + family.position * unit;
    return 0;
}

int interrupted() {
    const int state = PyGILState_Ensure();
    const int pending = PyErr_CheckSignals();  // runs handlers; their exception stays set
    PyGILState_Release(state);
    return pending;
}

PyObject* status_or_exception(int status) { return PyErr_Occurred() != nullptr ? nullptr : PyLong_FromLong(status); }

}  // namespace

struct accl_calls {
    accl_comm* comm = nullptr;
    uint32_t closed = 0;
    uint32_t running = 0;  // calls of all threads; read and written by who holds the interpreter
    std::vector<Family> families;
    std::unordered_map<Key, accl_plan*, Hash> plans;
};

namespace {

int run_released(accl_calls& calls, accl_plan* plan, const void* input, void* output, int wait) {
    ++calls.running;
    PyThreadState* const thread = PyEval_SaveThread();
    const int status = accl_comm_run(calls.comm, plan, input, output, wait);
    PyEval_RestoreThread(thread);
    --calls.running;
    return status;
}

// call(family, input, output): the status of a call like one that was prepared.
PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t number) {
    accl_calls& calls = *(accl_calls*)PyLong_AsVoidPtr(self);
    if (number != 3 || calls.closed != 0) return PyLong_FromLong(ACCL_UNKNOWN);
    const uint32_t family = (uint32_t)PyLong_AsUnsignedLong(arguments[0]);
    if (family >= calls.families.size()) return status_or_exception(ACCL_UNKNOWN);
    Buffer in, out;
    if (!out.take(arguments[2], PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE)) return PyLong_FromLong(ACCL_UNKNOWN);
    const bool one = arguments[1] == arguments[2];
    if (!one && !in.take(arguments[1], PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)) return PyLong_FromLong(ACCL_UNKNOWN);
    const Py_buffer& input = one ? out.view : in.view;
    const uint32_t format = format_of(input);
    const int in_place = place(calls.families[family], input, out.view);
    if (format == 0 || format != format_of(out.view) || in_place == 0) return PyLong_FromLong(ACCL_UNKNOWN);
    const auto found = calls.plans.find(Key{family, format, (uint64_t)input.len, (uint64_t)out.view.len, in_place == 1});
    if (found == calls.plans.end()) return PyLong_FromLong(ACCL_UNKNOWN);
    return status_or_exception(run_released(calls, found->second, input.buf, out.view.buf, 0));
}

// run(plan, input address, output address): the status; waits for calls of other threads.
PyObject* run(PyObject* self, PyObject* const* arguments, Py_ssize_t) {
    accl_calls& calls = *(accl_calls*)PyLong_AsVoidPtr(self);
    accl_plan* const plan = (accl_plan*)PyLong_AsVoidPtr(arguments[0]);
    void* const input = PyLong_AsVoidPtr(arguments[1]);
    void* const output = PyLong_AsVoidPtr(arguments[2]);
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (calls.closed != 0) return PyLong_FromLong(ACCL_BROKEN);
    return status_or_exception(run_released(calls, plan, input, output, 1));
}

}  // namespace

extern "C" {

PyMethodDef accl_call_method = {"call", call, METH_FASTCALL, nullptr};
PyMethodDef accl_run_method = {"run", run, METH_FASTCALL, nullptr};

accl_calls* accl_calls_create(accl_comm* comm) {
    accl_comm_interrupts(comm, interrupted);
    accl_calls* const calls = new (std::nothrow) accl_calls;
    if (calls != nullptr) calls->comm = comm;
    return calls;
}

// Later calls give ACCL_UNKNOWN; the memory stays, for threads that hold the callables.
void accl_calls_close(accl_calls* calls) { calls->closed = 1; }

uint32_t accl_calls_running(const accl_calls* calls) { return calls->running; }

void accl_calls_forget(accl_calls* calls) { calls->plans.clear(); }

int accl_calls_family(accl_calls* calls, uint32_t in_place, uint64_t position, uint64_t input_units) {
    calls->families.push_back(Family{in_place, position, input_units});
    return (int)calls->families.size() - 1;
}

void accl_calls_add(accl_calls* calls, uint32_t family, uint32_t format, uint64_t input_bytes, uint64_t output_bytes,
                    uint32_t in_place, accl_plan* plan) {
    calls->plans[Key{family, format, input_bytes, output_bytes, in_place != 0}] = plan;
}

}  // extern "C"
