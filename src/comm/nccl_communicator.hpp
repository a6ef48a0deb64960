// The NCCL backend: collectives on device memory, for the communicators of a mesh whose ranks compute on GPUs. Each is seeded by
// a communicator of the same ranks on the host (MPI's), which also carries its barrier and its splits: NCCL moves data between
// devices, MPI controls.
//
// Order. All NCCL operations of a process go on gpu::communication_stream(), whatever their communicator, in the order in which
// the program starts them. That is what keeps two communicators from deadlock: NCCL's kernels wait for each other across ranks,
// and two of them that ran in one order here and in the other there would wait forever (NCCL user guide, "Using multiple NCCL
// communicators concurrently"). It takes programs that start their operations in the same order on all ranks, which the contract
// demands anyway, and that call from one thread. It also means that no operation overtakes another: one that waits for a peer
// holds up those behind it.
//
// An operation starts after what was on the compute stream when it was called. Request::wait(), and so the blocking forms, makes
// the compute stream wait for it, not the host; test() asks the device. Not for use while a stream is captured into a CUDA graph.
//
// Messages. Sends and receives are collected until one of them is tested or waited for, or something else is started on NCCL;
// then they are launched together, and so may meet in any order among themselves: a rank can post its receive before its send.
// Post those that depend on each other before waiting for one. NCCL has no tags: messages between two ranks match in the order of
// posting, and tags other than 0 and kRingTag are refused. A message of another length than expected is an error in the caller
// that NCCL does not report: it hangs, and the timeout below ends it. Messages around a ring (kRingTag) are copied from GPU to
// GPU where the ranks share a node and reach each other's memory (comm/peer_ring.hpp). What the group gathers is, too, from then
// on or from gather_beside_products() on.
//
// Sums. bf16 and fp16 round once per addition, in the type itself (__hadd), as MPI's do here; where NVLink SHARP adds in the
// switch (NCCL_NVLS_ENABLE), it accumulates in fp32. `avg` multiplies by 1/size(), rounded to the type, before it adds: the exact
// average rounded once where the size is a power of two, and off by a rounding per rank where it is not. All ranks get the same
// bits. So does every run in which NCCL chooses the same algorithm: the same version, count, nodes and links. A sum of more than
// two ranks can depend on where an element lies in the buffer.
//
// Faults. NCCL's communicators are made non-blocking: a call returns although a peer never comes, and this file waits for it
// instead, with a timeout. check_nccl_progress() finds operations that a peer has left hanging, and errors that NCCL has met in
// the background. When one surfaces, all of this process's NCCL communicators are aborted, so that kernels leave the device and
// destructors do not hang, and then the error is thrown, with operation, group and rank.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.hpp"

namespace cohort {

/// A communicator over the ranks of `host`, which must outlive it, on the device that this process has open. Throws
/// SharedError(launch) if the NCCL libraries of two ranks differ or NCCL cannot connect the ranks; Error(launch) in a build
/// without CUDA. // Collective over: host
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host, std::string name);

/// Of the NCCL library that this process runs with, for nccl_version_text(); 0 in a build without NCCL. Needs no GPU.
int nccl_version();

/// To be called while waiting for the device (gpu::synchronize() takes it): throws Error(internal) if NCCL has failed, or if an
/// operation waits for its peers for longer than the timeout. Costs a few microseconds.
void check_nccl_progress();

/// Exposed communication on the device: seconds that the compute stream stood still for NCCL's operations, which it must have
/// passed, since forget_stalled_seconds(). Nothing if this process has no NCCL group.
std::optional<double> take_stalled_seconds();
void forget_stalled_seconds();

/// How long an operation may wait for its peers, see collective_watch.hpp. Connecting a new group has two minutes, or this if
/// shorter.
void set_collective_timeout(double seconds);

}  // namespace cohort
