#pragma once
#include <stdint.h>
typedef unsigned int mach_port_t, host_t, natural_t, mach_msg_type_number_t;
typedef int integer_t, kern_return_t, host_flavor_t;
typedef integer_t* host_info64_t;
struct vm_statistics64 {
  natural_t free_count, active_count, inactive_count, wire_count;
  uint64_t more[18];
};
typedef vm_statistics64 vm_statistics64_data_t;
#define KERN_SUCCESS 0
#define HOST_VM_INFO64 4
#define HOST_VM_INFO64_COUNT ((mach_msg_type_number_t)(sizeof(vm_statistics64_data_t) / sizeof(integer_t)))
extern "C" mach_port_t mach_host_self();
extern "C" kern_return_t host_statistics64(host_t, host_flavor_t, host_info64_t, mach_msg_type_number_t*);
