/* header.c - compares src/engine/pjrt/api.h with the official header of PJRT's C interface, at compile time.
 *
 * test/pjrt/header compiles it. Every member must have the offset and the size of the official one; the official
 * structs may go on behind ours. */
#include "engine/pjrt/api.h"
#include "xla/pjrt/c/pjrt_c_api.h"

#define SAME(ours, member, theirs, their_member)                                                  \
    _Static_assert(offsetof(struct ours, member) == offsetof(theirs, their_member) &&             \
                       sizeof(((struct ours *)0)->member) == sizeof(((theirs *)0)->their_member), \
                   #ours "." #member " is not " #theirs "." #their_member);
#define HEAD(ours, theirs)                          \
    SAME(ours, struct_size, theirs, struct_size)    \
    SAME(ours, extensions, theirs, extension_start) \
    _Static_assert(sizeof(struct ours) <= sizeof(theirs), #ours " is larger than " #theirs);
#define FUNCTION(number, theirs)                                                             \
    _Static_assert(offsetof(struct pjrt_api, function) + number * sizeof(pjrt_function *) == \
                       offsetof(PJRT_Api, theirs),                                           \
                   #number " is not the place of " #theirs);
#define VALUE(ours, theirs) _Static_assert((int)ours == (int)theirs, #ours " is not " #theirs);

/* clang-format off */
VALUE(PJRT_MAJOR, PJRT_API_MAJOR)
VALUE(PJRT_PRED, PJRT_Buffer_Type_PRED)
VALUE(PJRT_S8, PJRT_Buffer_Type_S8)
VALUE(PJRT_S32, PJRT_Buffer_Type_S32)
VALUE(PJRT_F16, PJRT_Buffer_Type_F16)
VALUE(PJRT_F32, PJRT_Buffer_Type_F32)
VALUE(PJRT_BF16, PJRT_Buffer_Type_BF16)
VALUE(PJRT_NAMED_STRING, PJRT_NamedValue_kString)
VALUE(PJRT_NAMED_INT64, PJRT_NamedValue_kInt64)
VALUE(PJRT_NAMED_INT64S, PJRT_NamedValue_kInt64List)
VALUE(PJRT_NAMED_FLOAT, PJRT_NamedValue_kFloat)
VALUE(PJRT_NAMED_BOOL, PJRT_NamedValue_kBool)
VALUE(PJRT_DURING_CALL, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall)
VALUE(PJRT_UNTIL_TRANSFERRED, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes)
VALUE(PJRT_ZERO_COPY, PJRT_HostBufferSemantics_kImmutableZeroCopy)

HEAD(pjrt_version, PJRT_Api_Version)
SAME(pjrt_version, major, PJRT_Api_Version, major_version)
SAME(pjrt_version, minor, PJRT_Api_Version, minor_version)

HEAD(pjrt_error_destroy, PJRT_Error_Destroy_Args)
SAME(pjrt_error_destroy, error, PJRT_Error_Destroy_Args, error)

HEAD(pjrt_error_message, PJRT_Error_Message_Args)
SAME(pjrt_error_message, error, PJRT_Error_Message_Args, error)
SAME(pjrt_error_message, message, PJRT_Error_Message_Args, message)
SAME(pjrt_error_message, message_size, PJRT_Error_Message_Args, message_size)

HEAD(pjrt_plugin_initialize, PJRT_Plugin_Initialize_Args)

HEAD(pjrt_event_call, PJRT_Event_Destroy_Args)
SAME(pjrt_event_call, event, PJRT_Event_Destroy_Args, event)
HEAD(pjrt_event_call, PJRT_Event_Await_Args)
SAME(pjrt_event_call, event, PJRT_Event_Await_Args, event)

HEAD(pjrt_named, PJRT_NamedValue)
SAME(pjrt_named, name, PJRT_NamedValue, name)
SAME(pjrt_named, name_size, PJRT_NamedValue, name_size)
SAME(pjrt_named, type, PJRT_NamedValue, type)
SAME(pjrt_named, value.text, PJRT_NamedValue, string_value)
SAME(pjrt_named, value.integer, PJRT_NamedValue, int64_value)
SAME(pjrt_named, value.integers, PJRT_NamedValue, int64_array_value)
SAME(pjrt_named, value.number, PJRT_NamedValue, float_value)
SAME(pjrt_named, value.flag, PJRT_NamedValue, bool_value)
SAME(pjrt_named, value_size, PJRT_NamedValue, value_size)

HEAD(pjrt_client_create, PJRT_Client_Create_Args)
SAME(pjrt_client_create, options, PJRT_Client_Create_Args, create_options)
SAME(pjrt_client_create, n_options, PJRT_Client_Create_Args, num_options)
SAME(pjrt_client_create, get, PJRT_Client_Create_Args, kv_get_callback)
SAME(pjrt_client_create, get_arg, PJRT_Client_Create_Args, kv_get_user_arg)
SAME(pjrt_client_create, put, PJRT_Client_Create_Args, kv_put_callback)
SAME(pjrt_client_create, put_arg, PJRT_Client_Create_Args, kv_put_user_arg)
SAME(pjrt_client_create, client, PJRT_Client_Create_Args, client)
SAME(pjrt_client_create, try_get, PJRT_Client_Create_Args, kv_try_get_callback)
SAME(pjrt_client_create, try_get_arg, PJRT_Client_Create_Args, kv_try_get_user_arg)

HEAD(pjrt_client_call, PJRT_Client_Destroy_Args)
SAME(pjrt_client_call, client, PJRT_Client_Destroy_Args, client)

HEAD(pjrt_client_text, PJRT_Client_PlatformName_Args)
SAME(pjrt_client_text, client, PJRT_Client_PlatformName_Args, client)
SAME(pjrt_client_text, text, PJRT_Client_PlatformName_Args, platform_name)
SAME(pjrt_client_text, size, PJRT_Client_PlatformName_Args, platform_name_size)
HEAD(pjrt_client_text, PJRT_Client_PlatformVersion_Args)
SAME(pjrt_client_text, client, PJRT_Client_PlatformVersion_Args, client)
SAME(pjrt_client_text, text, PJRT_Client_PlatformVersion_Args, platform_version)
SAME(pjrt_client_text, size, PJRT_Client_PlatformVersion_Args, platform_version_size)

HEAD(pjrt_client_devices, PJRT_Client_AddressableDevices_Args)
SAME(pjrt_client_devices, client, PJRT_Client_AddressableDevices_Args, client)
SAME(pjrt_client_devices, devices, PJRT_Client_AddressableDevices_Args, addressable_devices)
SAME(pjrt_client_devices, n_devices, PJRT_Client_AddressableDevices_Args, num_addressable_devices)

HEAD(pjrt_program_text, PJRT_Program)
SAME(pjrt_program_text, code, PJRT_Program, code)
SAME(pjrt_program_text, code_size, PJRT_Program, code_size)
SAME(pjrt_program_text, format, PJRT_Program, format)
SAME(pjrt_program_text, format_size, PJRT_Program, format_size)

HEAD(pjrt_client_compile, PJRT_Client_Compile_Args)
SAME(pjrt_client_compile, client, PJRT_Client_Compile_Args, client)
SAME(pjrt_client_compile, program, PJRT_Client_Compile_Args, program)
SAME(pjrt_client_compile, options, PJRT_Client_Compile_Args, compile_options)
SAME(pjrt_client_compile, options_size, PJRT_Client_Compile_Args, compile_options_size)
SAME(pjrt_client_compile, executable, PJRT_Client_Compile_Args, executable)

HEAD(pjrt_from_host, PJRT_Client_BufferFromHostBuffer_Args)
SAME(pjrt_from_host, client, PJRT_Client_BufferFromHostBuffer_Args, client)
SAME(pjrt_from_host, data, PJRT_Client_BufferFromHostBuffer_Args, data)
SAME(pjrt_from_host, type, PJRT_Client_BufferFromHostBuffer_Args, type)
SAME(pjrt_from_host, dims, PJRT_Client_BufferFromHostBuffer_Args, dims)
SAME(pjrt_from_host, n_dims, PJRT_Client_BufferFromHostBuffer_Args, num_dims)
SAME(pjrt_from_host, strides, PJRT_Client_BufferFromHostBuffer_Args, byte_strides)
SAME(pjrt_from_host, n_strides, PJRT_Client_BufferFromHostBuffer_Args, num_byte_strides)
SAME(pjrt_from_host, semantics, PJRT_Client_BufferFromHostBuffer_Args, host_buffer_semantics)
SAME(pjrt_from_host, device, PJRT_Client_BufferFromHostBuffer_Args, device)
SAME(pjrt_from_host, memory, PJRT_Client_BufferFromHostBuffer_Args, memory)
SAME(pjrt_from_host, layout, PJRT_Client_BufferFromHostBuffer_Args, device_layout)
SAME(pjrt_from_host, done, PJRT_Client_BufferFromHostBuffer_Args, done_with_host_buffer)
SAME(pjrt_from_host, buffer, PJRT_Client_BufferFromHostBuffer_Args, buffer)

HEAD(pjrt_device_description, PJRT_Device_GetDescription_Args)
SAME(pjrt_device_description, device, PJRT_Device_GetDescription_Args, device)
SAME(pjrt_device_description, description, PJRT_Device_GetDescription_Args, device_description)

HEAD(pjrt_description_text, PJRT_DeviceDescription_Kind_Args)
SAME(pjrt_description_text, description, PJRT_DeviceDescription_Kind_Args, device_description)
SAME(pjrt_description_text, text, PJRT_DeviceDescription_Kind_Args, device_kind)
SAME(pjrt_description_text, size, PJRT_DeviceDescription_Kind_Args, device_kind_size)

HEAD(pjrt_device_memory, PJRT_Device_MemoryStats_Args)
SAME(pjrt_device_memory, device, PJRT_Device_MemoryStats_Args, device)
SAME(pjrt_device_memory, bytes_in_use, PJRT_Device_MemoryStats_Args, bytes_in_use)
SAME(pjrt_device_memory, peak, PJRT_Device_MemoryStats_Args, peak_bytes_in_use)
SAME(pjrt_device_memory, peak_is_set, PJRT_Device_MemoryStats_Args, peak_bytes_in_use_is_set)
SAME(pjrt_device_memory, n_allocations, PJRT_Device_MemoryStats_Args, num_allocs)
SAME(pjrt_device_memory, n_allocations_is_set, PJRT_Device_MemoryStats_Args, num_allocs_is_set)
SAME(pjrt_device_memory, largest, PJRT_Device_MemoryStats_Args, largest_alloc_size)
SAME(pjrt_device_memory, largest_is_set, PJRT_Device_MemoryStats_Args, largest_alloc_size_is_set)
SAME(pjrt_device_memory, limit, PJRT_Device_MemoryStats_Args, bytes_limit)
SAME(pjrt_device_memory, limit_is_set, PJRT_Device_MemoryStats_Args, bytes_limit_is_set)
SAME(pjrt_device_memory, reserved, PJRT_Device_MemoryStats_Args, bytes_reserved)
SAME(pjrt_device_memory, reserved_is_set, PJRT_Device_MemoryStats_Args, bytes_reserved_is_set)
SAME(pjrt_device_memory, peak_reserved, PJRT_Device_MemoryStats_Args, peak_bytes_reserved)
SAME(pjrt_device_memory, peak_reserved_is_set, PJRT_Device_MemoryStats_Args, peak_bytes_reserved_is_set)
SAME(pjrt_device_memory, reservable, PJRT_Device_MemoryStats_Args, bytes_reservable_limit)
SAME(pjrt_device_memory, reservable_is_set, PJRT_Device_MemoryStats_Args, bytes_reservable_limit_is_set)
SAME(pjrt_device_memory, largest_free, PJRT_Device_MemoryStats_Args, largest_free_block_bytes)
SAME(pjrt_device_memory, largest_free_is_set, PJRT_Device_MemoryStats_Args, largest_free_block_bytes_is_set)
SAME(pjrt_device_memory, pool, PJRT_Device_MemoryStats_Args, pool_bytes)
SAME(pjrt_device_memory, pool_is_set, PJRT_Device_MemoryStats_Args, pool_bytes_is_set)
SAME(pjrt_device_memory, peak_pool, PJRT_Device_MemoryStats_Args, peak_pool_bytes)
SAME(pjrt_device_memory, peak_pool_is_set, PJRT_Device_MemoryStats_Args, peak_pool_bytes_is_set)

HEAD(pjrt_loaded_call, PJRT_LoadedExecutable_Destroy_Args)
SAME(pjrt_loaded_call, executable, PJRT_LoadedExecutable_Destroy_Args, executable)

HEAD(pjrt_executable_call, PJRT_Executable_Destroy_Args)
SAME(pjrt_executable_call, executable, PJRT_Executable_Destroy_Args, executable)

HEAD(pjrt_loaded_executable, PJRT_LoadedExecutable_GetExecutable_Args)
SAME(pjrt_loaded_executable, loaded, PJRT_LoadedExecutable_GetExecutable_Args, loaded_executable)
SAME(pjrt_loaded_executable, executable, PJRT_LoadedExecutable_GetExecutable_Args, executable)

HEAD(pjrt_serialize, PJRT_Executable_Serialize_Args)
SAME(pjrt_serialize, executable, PJRT_Executable_Serialize_Args, executable)
SAME(pjrt_serialize, bytes, PJRT_Executable_Serialize_Args, serialized_bytes)
SAME(pjrt_serialize, size, PJRT_Executable_Serialize_Args, serialized_bytes_size)
SAME(pjrt_serialize, serialized, PJRT_Executable_Serialize_Args, serialized_executable)
SAME(pjrt_serialize, free_it, PJRT_Executable_Serialize_Args, serialized_executable_deleter)

HEAD(pjrt_deserialize, PJRT_Executable_DeserializeAndLoad_Args)
SAME(pjrt_deserialize, client, PJRT_Executable_DeserializeAndLoad_Args, client)
SAME(pjrt_deserialize, bytes, PJRT_Executable_DeserializeAndLoad_Args, serialized_executable)
SAME(pjrt_deserialize, size, PJRT_Executable_DeserializeAndLoad_Args, serialized_executable_size)
SAME(pjrt_deserialize, executable, PJRT_Executable_DeserializeAndLoad_Args, loaded_executable)
SAME(pjrt_deserialize, options, PJRT_Executable_DeserializeAndLoad_Args, overridden_serialized_compile_options)
SAME(pjrt_deserialize, options_size, PJRT_Executable_DeserializeAndLoad_Args,
     overridden_serialized_compile_options_size)

HEAD(pjrt_execute_options, PJRT_ExecuteOptions)
SAME(pjrt_execute_options, send, PJRT_ExecuteOptions, send_callbacks)
SAME(pjrt_execute_options, receive, PJRT_ExecuteOptions, recv_callbacks)
SAME(pjrt_execute_options, n_send, PJRT_ExecuteOptions, num_send_ops)
SAME(pjrt_execute_options, n_receive, PJRT_ExecuteOptions, num_recv_ops)
SAME(pjrt_execute_options, launch_id, PJRT_ExecuteOptions, launch_id)
SAME(pjrt_execute_options, kept, PJRT_ExecuteOptions, non_donatable_input_indices)
SAME(pjrt_execute_options, n_kept, PJRT_ExecuteOptions, num_non_donatable_input_indices)
SAME(pjrt_execute_options, context, PJRT_ExecuteOptions, context)
SAME(pjrt_execute_options, call_location, PJRT_ExecuteOptions, call_location)
SAME(pjrt_execute_options, n_tasks, PJRT_ExecuteOptions, num_tasks)
SAME(pjrt_execute_options, tasks, PJRT_ExecuteOptions, task_ids)
SAME(pjrt_execute_options, incarnations, PJRT_ExecuteOptions, incarnation_ids)

HEAD(pjrt_execute, PJRT_LoadedExecutable_Execute_Args)
SAME(pjrt_execute, executable, PJRT_LoadedExecutable_Execute_Args, executable)
SAME(pjrt_execute, options, PJRT_LoadedExecutable_Execute_Args, options)
SAME(pjrt_execute, arguments, PJRT_LoadedExecutable_Execute_Args, argument_lists)
SAME(pjrt_execute, n_devices, PJRT_LoadedExecutable_Execute_Args, num_devices)
SAME(pjrt_execute, n_arguments, PJRT_LoadedExecutable_Execute_Args, num_args)
SAME(pjrt_execute, outputs, PJRT_LoadedExecutable_Execute_Args, output_lists)
SAME(pjrt_execute, complete, PJRT_LoadedExecutable_Execute_Args, device_complete_events)
SAME(pjrt_execute, device, PJRT_LoadedExecutable_Execute_Args, execute_device)

HEAD(pjrt_buffer_call, PJRT_Buffer_Destroy_Args)
SAME(pjrt_buffer_call, buffer, PJRT_Buffer_Destroy_Args, buffer)

HEAD(pjrt_to_host, PJRT_Buffer_ToHostBuffer_Args)
SAME(pjrt_to_host, from, PJRT_Buffer_ToHostBuffer_Args, src)
SAME(pjrt_to_host, layout, PJRT_Buffer_ToHostBuffer_Args, host_layout)
SAME(pjrt_to_host, to, PJRT_Buffer_ToHostBuffer_Args, dst)
SAME(pjrt_to_host, size, PJRT_Buffer_ToHostBuffer_Args, dst_size)
SAME(pjrt_to_host, event, PJRT_Buffer_ToHostBuffer_Args, event)

HEAD(pjrt_api, PJRT_Api)
SAME(pjrt_api, version, PJRT_Api, pjrt_api_version)
FUNCTION(PJRT_ERROR_DESTROY, PJRT_Error_Destroy)
FUNCTION(PJRT_ERROR_MESSAGE, PJRT_Error_Message)
FUNCTION(PJRT_PLUGIN_INITIALIZE, PJRT_Plugin_Initialize)
FUNCTION(PJRT_EVENT_DESTROY, PJRT_Event_Destroy)
FUNCTION(PJRT_EVENT_AWAIT, PJRT_Event_Await)
FUNCTION(PJRT_CLIENT_CREATE, PJRT_Client_Create)
FUNCTION(PJRT_CLIENT_DESTROY, PJRT_Client_Destroy)
FUNCTION(PJRT_CLIENT_PLATFORM_NAME, PJRT_Client_PlatformName)
FUNCTION(PJRT_CLIENT_PLATFORM_VERSION, PJRT_Client_PlatformVersion)
FUNCTION(PJRT_CLIENT_ADDRESSABLE_DEVICES, PJRT_Client_AddressableDevices)
FUNCTION(PJRT_CLIENT_COMPILE, PJRT_Client_Compile)
FUNCTION(PJRT_CLIENT_BUFFER_FROM_HOST, PJRT_Client_BufferFromHostBuffer)
FUNCTION(PJRT_DESCRIPTION_KIND, PJRT_DeviceDescription_Kind)
FUNCTION(PJRT_DEVICE_DESCRIPTION, PJRT_Device_GetDescription)
FUNCTION(PJRT_DEVICE_MEMORY_STATS, PJRT_Device_MemoryStats)
FUNCTION(PJRT_EXECUTABLE_DESTROY, PJRT_Executable_Destroy)
FUNCTION(PJRT_EXECUTABLE_SERIALIZE, PJRT_Executable_Serialize)
FUNCTION(PJRT_LOADED_DESTROY, PJRT_LoadedExecutable_Destroy)
FUNCTION(PJRT_LOADED_EXECUTABLE, PJRT_LoadedExecutable_GetExecutable)
FUNCTION(PJRT_LOADED_EXECUTE, PJRT_LoadedExecutable_Execute)
FUNCTION(PJRT_DESERIALIZE_AND_LOAD, PJRT_Executable_DeserializeAndLoad)
FUNCTION(PJRT_BUFFER_DESTROY, PJRT_Buffer_Destroy)
FUNCTION(PJRT_BUFFER_TO_HOST, PJRT_Buffer_ToHostBuffer)
