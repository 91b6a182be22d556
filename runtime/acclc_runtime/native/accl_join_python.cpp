// Calls of a communicator from Python, without the cost of ctypes or of Python code: methods of a class.
//
// A call like one that was made before (the same method, what else it says, types and sizes) runs here; all others go to
// the method of the same name in Python, which checks everything and lets this file know of them.
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

extern struct _object _Py_NoneStruct;
extern struct _object _Py_FalseStruct;

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
void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
PyObject* PyObject_GetAttr(PyObject*, PyObject*);
PyObject* PyObject_Vectorcall(PyObject*, PyObject* const*, size_t, PyObject*);
Py_ssize_t PyTuple_Size(PyObject*);
PyObject* PyTuple_GetItem(PyObject*, Py_ssize_t);
PyObject* PyUnicode_InternFromString(const char*);
int PyUnicode_Compare(PyObject*, PyObject*);

}  // extern "C"

namespace {

// What a user can say in a call.
enum Word { word_x, word_out, word_name, word_op, word_root, word_variant, word_dtype, word_stream, word_async, words };
enum { first_of_way = word_name, last_of_way = word_dtype };

// A method: its parameters in order, and the one in Python.
struct Method {
    struct Parameter {
        PyObject* name;
        Word word;
    };
    std::vector<Parameter> parameters;
    PyObject* in_python = nullptr;
};

enum { methods = 10 };
Method method_table[methods];
PyObject* short_name = nullptr;  // of the attribute that tells the calls of a communicator

// What was said in earlier calls but for the arrays, and which family of plans that is.
struct Way {
    int method;
    PyObject* said[words];
    uint32_t family;
};
enum { most_ways = 64 };

// A collective with an operator and a type, as a user calls it: key of the calls that were prepared.
struct Family {
    uint32_t in_place = 0;  // 0: never; 1: same; 2: the input lies in the output; 3: the output lies in the input
    uint64_t position = 0;
    uint64_t input_units = 0;
    uint64_t output_units = 0;
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

// The begin of every object, and of a NumPy array: used where Python found them to be so (see accl_arrays).
struct Object {
    Py_ssize_t references;
    const void* type;
};
struct Array {
    Object head;
    char* at;
    int dimensions;
    const Py_ssize_t* shape;
    const Py_ssize_t* strides;
    PyObject* base;
    const void* element;
    int flags;
};
enum { array_contiguous = 0x1, array_writable = 0x400 };

struct Element {
    const void* type;
    uint32_t format;
    uint32_t bytes;
};
const void* array_type = nullptr;  // null: arrays are taken as buffers
const void* text_type = nullptr;
std::vector<Element> elements;

struct Span {
    char* at = nullptr;
    uint64_t bytes = 0;
    uint32_t format = 0;  // a one-letter element type in this machine's order; 0: another
};

bool span_of_array(const Array& array, bool written, Span* span) {
    const int needed = array_contiguous | (written ? array_writable : 0);
    if ((array.flags & needed) != needed) return false;
    for (const Element& e : elements) {
        if (e.type != array.element) continue;
        uint64_t bytes = e.bytes;
        for (int d = 0; d < array.dimensions; ++d) bytes *= (uint64_t)array.shape[d];
        *span = Span{array.at, bytes, e.format};
        return true;
    }
    return false;
}

// Where an object's memory lies; ``buffer`` holds it if need be.
bool span_of(PyObject* object, bool written, Buffer& buffer, Span* span) {
    if (array_type != nullptr && ((const Object*)object)->type == array_type)
        return span_of_array(*(const Array*)object, written, span);
    if (!buffer.take(object, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (written ? PyBUF_WRITABLE : 0))) return false;
    const char* const f = buffer.view.format;
    const uint32_t format = f == nullptr ? 'B' : f[0] != 0 && f[1] == 0 ? (uint32_t)(unsigned char)f[0] : 0;
    *span = Span{(char*)buffer.view.buf, (uint64_t)buffer.view.len, format};
    return format != 0;
}

// -1: not in place; 1: it is; 0: the buffers overlap in another way.
int place(const Family& family, const Span& in, const Span& out) {
    if (in.at + in.bytes <= out.at || out.at + out.bytes <= in.at) return -1;
    const uint64_t unit = in.bytes / family.input_units;
    if (family.in_place == 1) return in.at == out.at && in.bytes == out.bytes;
    if (family.in_place == 2) return in.at == out.at + family.position * unit;
    if (family.in_place == 3) return out.at == in.at + family.position * unit;
    return 0;
}

bool same_word(PyObject* one, PyObject* other) {
    if (one == other) return true;
    if (one == nullptr || other == nullptr || text_type == nullptr) return false;
    return ((const Object*)one)->type == text_type && ((const Object*)other)->type == text_type &&
           PyUnicode_Compare(one, other) == 0;
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
    std::vector<Way> ways;
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

// What a call says, by word; false: something that is not known here.
bool read_words(const Method& method, PyObject* const* arguments, Py_ssize_t number, PyObject* keywords,
                PyObject* (&said)[words]) {
    if (number > (Py_ssize_t)method.parameters.size()) return false;
    for (Py_ssize_t i = 0; i < number; ++i) said[method.parameters[(size_t)i].word] = arguments[i];
    const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_Size(keywords);
    for (Py_ssize_t k = 0; k < named; ++k) {
        PyObject* const name = PyTuple_GetItem(keywords, k);
        size_t found = 0;
        while (found < method.parameters.size() && method.parameters[found].name != name) ++found;
        if (found == method.parameters.size() || (Py_ssize_t)found < number) return false;
        said[method.parameters[found].word] = arguments[number + k];
    }
    if (said[word_async] == &_Py_FalseStruct) said[word_async] = nullptr;
    for (PyObject*& word : said) word = word == &_Py_NoneStruct ? nullptr : word;
    return said[word_stream] == nullptr && said[word_async] == nullptr;
}

const Way* way_of(const accl_calls& calls, int method, PyObject* const (&said)[words]) {
    for (const Way& way : calls.ways) {
        bool same = way.method == method;
        for (int w = first_of_way; same && w <= last_of_way; ++w) same = same_word(way.said[w], said[w]);
        if (same) return &way;
    }
    return nullptr;
}

// Runs a call that is like one that was prepared: its status; ACCL_UNKNOWN where there was none.
int run_known(accl_calls& calls, int method, PyObject* const (&said)[words]) {
    if (calls.closed != 0) return ACCL_UNKNOWN;
    const Way* const way = way_of(calls, method, said);
    if (way == nullptr) return ACCL_UNKNOWN;
    const Family& family = calls.families[way->family];
    const bool reads = family.input_units != 0, writes = family.output_units != 0;
    if (writes != (said[word_out] != nullptr)) return ACCL_UNKNOWN;
    Buffer holds_in, holds_out;
    Span in, out;
    if (writes && !span_of(said[word_out], true, holds_out, &out)) return ACCL_UNKNOWN;
    if (reads || !writes) {  // a rank that has neither is told the size by an array of it
        if (said[word_x] == nullptr || !span_of(said[word_x], false, holds_in, &in)) return ACCL_UNKNOWN;
    }
    const int in_place = reads && writes ? place(family, in, out) : -1;
    if (in_place == 0 || (reads && writes && in.format != out.format)) return ACCL_UNKNOWN;
    const auto found = calls.plans.find(
        Key{way->family, writes ? out.format : in.format, in.bytes, out.bytes, in_place == 1});
    if (found == calls.plans.end()) return ACCL_UNKNOWN;
    return run_released(calls, found->second, reads ? in.at : nullptr, out.at, 0);
}

accl_calls* calls_of(PyObject* communicator) {
    PyObject* const number = PyObject_GetAttr(communicator, short_name);
    accl_calls* const calls = number == nullptr ? nullptr : (accl_calls*)PyLong_AsVoidPtr(number);
    if (number != nullptr) Py_DecRef(number);
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    return calls;
}

PyObject* call_in_python(const Method& method, PyObject* self, PyObject* const* arguments, Py_ssize_t number,
                         PyObject* keywords) {
    const size_t given = (size_t)number + (keywords == nullptr ? 0 : (size_t)PyTuple_Size(keywords));
    std::vector<PyObject*> all(1, self);
    all.insert(all.end(), arguments, arguments + given);
    return PyObject_Vectorcall(method.in_python, all.data(), (size_t)number + 1, keywords);
}

template <int which>
PyObject* call_method(PyObject* self, PyObject* const* arguments, Py_ssize_t number, PyObject* keywords) {
    const Method& method = method_table[which];
    accl_calls* const calls = calls_of(self);
    PyObject* said[words] = {};
    if (calls != nullptr && read_words(method, arguments, number, keywords, said)) {
        const int status = run_known(*calls, which, said);
        if (PyErr_Occurred() != nullptr) return nullptr;
        if (status == ACCL_DONE) {
            PyObject* const result = said[word_out] == nullptr ? &_Py_NoneStruct : said[word_out];
            Py_IncRef(result);
            return result;
        }
    }
    return call_in_python(method, self, arguments, number, keywords);
}

typedef PyObject* (*Called)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
const Called method_functions[methods] = {call_method<0>, call_method<1>, call_method<2>, call_method<3>,
                                          call_method<4>, call_method<5>, call_method<6>, call_method<7>,
                                          call_method<8>, call_method<9>};

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

int accl_calls_family(accl_calls* calls, uint32_t in_place, uint64_t position, uint64_t input_units,
                      uint64_t output_units) {
    calls->families.push_back(Family{in_place, position, input_units, output_units});
    return (int)calls->families.size() - 1;
}

void accl_calls_forget_ways(accl_calls* calls) {
    for (const Way& way : calls->ways) {
        for (PyObject* const word : way.said) {
            if (word != nullptr) Py_DecRef(word);
        }
    }
    calls->ways.clear();
}

// ``said``: one a word; None and null are the same.
void accl_calls_way(accl_calls* calls, int method, PyObject* const* said, uint32_t family) {
    if (calls->ways.size() >= most_ways) accl_calls_forget_ways(calls);
    Way way = {method, {}, family};
    for (int w = first_of_way; w <= last_of_way; ++w) {
        if (said[w] == nullptr || said[w] == &_Py_NoneStruct) continue;
        way.said[w] = said[w];
        Py_IncRef(said[w]);
    }
    if (way_of(*calls, method, way.said) == nullptr) calls->ways.push_back(way);
}

// The parameters of a method of a communicator, in order; the words are numbers of ``Word``. Gives the function, null
// if there is none of this number. Once a process, as is accl_arrays.
void* accl_method(int method, PyObject* in_python, int parameters, const char* const* names, const int* parameter_words) {
    if (method < 0 || method >= methods) return nullptr;
    Method& made = method_table[method];
    short_name = PyUnicode_InternFromString("_short");
    Py_IncRef(in_python);
    made.in_python = in_python;
    for (int i = 0; i < parameters; ++i)
        made.parameters.push_back({PyUnicode_InternFromString(names[i]), (Word)parameter_words[i]});
    return (void*)method_functions[method];
}

// NumPy's arrays and Python's strings begin as declared above: their types, and the arrays' element types.
void accl_arrays(const void* type, const void* text, int number, const void* const* types, const uint32_t* formats,
                 const uint32_t* bytes) {
    array_type = type;
    text_type = text;
    for (int i = 0; i < number; ++i) elements.push_back(Element{types[i], formats[i], bytes[i]});
}

void accl_calls_add(accl_calls* calls, uint32_t family, uint32_t format, uint64_t input_bytes, uint64_t output_bytes,
                    uint32_t in_place, accl_plan* plan) {
    calls->plans[Key{family, format, input_bytes, output_bytes, in_place != 0}] = plan;
}

}  // extern "C"
