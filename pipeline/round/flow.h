// Source -> transform (in parallel) -> sink, in order, with a bound on what is in memory: a oneTBB flow graph.
//
//   tickets -> limiter -> source -> transform -> sequencer -> sink
//                 ^          |  (in parallel)                  |
//                 +-- token--+---------------------------------+
//
// The limiter counts tickets, not items: a ticket lets the source produce one item and comes back as a token
// when the sink is done with it, so an item exists only while it holds a ticket. Tickets are cheap to make,
// which matters because oneTBB makes them under a spin lock; the source itself may read from a disk.
//
// RunBoundedFlow blocks in wait_for_all and works along; call it inside a task_arena to set the number of
// threads. Source and sink are called by one thread at a time (not always the same one), the transform by
// many at once. Independent flows may run at the same time.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/parallel.h"
#include "tbb/flow_graph.h"
#include "tbb/task_arena.h"

namespace fulcrum::pipeline {

// How a running flow ends early: the first error, or a request of the caller to stop.
//
// Shared by all nodes of one flow; thread-safe. Nodes ask stopped() before they do any work and let what is
// still on its way pass through empty, so every token comes back and the graph runs dry by itself. That is
// safer than graph::cancel(), after which try_put returns true and drops its message.

class FlowState {
 public:
  explicit FlowState(std::stop_token stop) : stop_(std::move(stop)) {}

  /// True once there is no point in starting more work.
  bool stopped() const { return failed() || stop_.stop_requested(); }
  /// True once an error was recorded. A node that asks this instead lets its stage find out that it should stop, so
  /// that the stage's name is in the result.
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  /// Records an error of a stage; only the first one counts.
  void Fail(const std::string& stage, const absl::Status& status);

  /// The first error; else CANCELLED if the caller asked to stop before `complete`; else OK.
  absl::Status Result(bool complete) const;

  /// Calls a stage's own code inside a StopScope. An exception becomes a status, and a parallel loop inside does not
  /// pick up another node of the graph while it waits. The result is a Status or StatusOr, with the stage's name in
  /// any error already recorded here.
  template <typename Call>
  auto Guard(const std::string& stage, const Call& call) -> std::invoke_result_t<Call> {
    using Result = std::invoke_result_t<Call>;
    Result result = CallCatching<Result>(stop_, call);
    if (!result.ok()) Fail(stage, StatusOf(result));
    return result;
  }

 private:
  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename ResultOr>
  static const absl::Status& StatusOf(const ResultOr& result) {
    return result.status();
  }

  template <typename Result, typename Call>
  static Result CallCatching(const std::stop_token& stop, const Call& call) {
    // A throw must not reach the graph: the run would end without its tokens and buffers in order.
    try {
      const StopScope scope(stop);
      return tbb::this_task_arena::isolate([&] { return call(); });
    } catch (const StoppedOnRequest& stopped) {
      return absl::CancelledError(stopped.what());
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("memory ran out");
    } catch (const std::exception& error) {
      return absl::InternalError(std::string("an exception was thrown: ") + error.what());
    } catch (...) {
      return absl::InternalError("an exception of unknown type was thrown");
    }
  }

  const std::stop_token stop_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  absl::Status first_error_;  ///< guarded by mutex_
};

struct FlowOptions {
  std::size_t max_in_flight = 8;       ///< items between the start of the source's call and the end of the sink's; > 0
  std::string source_name = "source";  ///< the names with which errors begin
  std::string transform_name = "transform";
  std::string sink_name = "sink";
  std::stop_token stop = {};  ///< lets another thread end the flow early
};

/// The flow's graph for items In that become Out. Built, run once and destroyed: a oneTBB graph that has
/// failed must not be run again.
template <typename In, typename Out>
class BoundedFlow {
 public:
  template <typename Source, typename Transform, typename Sink>
  BoundedFlow(const FlowOptions& options, Source& source, Transform& transform, Sink& sink)
      : state_(options.stop),
        tickets_(graph_, [this](tbb::flow_control& control) { return NextTicket(control); }),
        limiter_(graph_, options.max_in_flight),
        source_(graph_, tbb::flow::serial,
                [this, &options, &source](Ticket, typename SourceNode::output_ports_type& ports) {
                  Produce(options.source_name, source, ports);
                }),
        transform_(graph_, tbb::flow::unlimited,
                   [this, &options, &transform](const Parcel<In>& parcel) {
                     return Convert(options.transform_name, transform, parcel);
                   }),
        sequencer_(graph_, [](const Parcel<Out>& parcel) { return parcel.sequence; }),
        sink_(graph_, tbb::flow::serial,
              [this, &options, &sink](const Parcel<Out>& parcel) { return Consume(options.sink_name, sink, parcel); }) {
    tbb::flow::make_edge(tickets_, limiter_);
    tbb::flow::make_edge(limiter_, source_);
    tbb::flow::make_edge(tbb::flow::output_port<kItems>(source_), transform_);
    tbb::flow::make_edge(transform_, sequencer_);
    tbb::flow::make_edge(sequencer_, sink_);
    tbb::flow::make_edge(sink_, limiter_.decrementer());
    tbb::flow::make_edge(tbb::flow::output_port<kTokens>(source_), limiter_.decrementer());
  }

  absl::Status Run() {
    tickets_.activate();
    graph_.wait_for_all();
    return state_.Result(/*complete=*/exhausted_ && consumed_ == produced_);
  }

 private:
  using Ticket = tbb::flow::continue_msg;
  using Token = int;

  /// An item on its way. Messages are copied about once per edge, so it holds a pointer; a parcel without an
  /// item comes from work that was not done because the flow is ending.
  template <typename Item>
  struct Parcel {
    std::size_t sequence = 0;
    std::shared_ptr<Item> item;
  };

  using SourceNode = tbb::flow::multifunction_node<Ticket, std::tuple<Parcel<In>, Token>>;
  static constexpr std::size_t kItems = 0;
  static constexpr std::size_t kTokens = 1;

  Ticket NextTicket(tbb::flow_control& control) {
    if (exhausted_.load() || state_.stopped()) control.stop();
    return {};
  }

  template <typename Source>
  void Produce(const std::string& name, Source& source, typename SourceNode::output_ports_type& ports) {
    std::shared_ptr<In> item;
    if (!exhausted_.load() && !state_.stopped()) item = NextItem(name, source);
    if (item == nullptr) {
      std::get<kTokens>(ports).try_put(1);
      return;
    }
    // Neither port refuses: the transform is unlimited and the decrementer takes everything.
    std::get<kItems>(ports).try_put({produced_++, std::move(item)});
  }

  template <typename Source>
  std::shared_ptr<In> NextItem(const std::string& name, Source& source) {
    auto next = state_.Guard(name, [&]() -> absl::StatusOr<std::shared_ptr<In>> {
      absl::StatusOr<std::optional<In>> item = source();
      if (!item.ok()) return std::move(item).status();
      if (!item->has_value()) return std::shared_ptr<In>();
      return std::make_shared<In>(**std::move(item));
    });
    if (!next.ok()) return nullptr;
    if (*next == nullptr) exhausted_.store(true);
    return *std::move(next);
  }

  template <typename Transform>
  Parcel<Out> Convert(const std::string& name, Transform& transform, const Parcel<In>& parcel) {
    if (state_.stopped()) return {parcel.sequence, nullptr};
    auto result = state_.Guard(name, [&]() -> absl::StatusOr<std::shared_ptr<Out>> {
      absl::StatusOr<Out> out = transform(std::move(*parcel.item));
      if (!out.ok()) return std::move(out).status();
      return std::make_shared<Out>(*std::move(out));
    });
    return {parcel.sequence, result.ok() ? *std::move(result) : nullptr};
  }

  template <typename Sink>
  Token Consume(const std::string& name, Sink& sink, const Parcel<Out>& parcel) {
    if (parcel.item != nullptr && !state_.stopped()) {
      const absl::Status status = state_.Guard(name, [&]() -> absl::Status { return sink(std::move(*parcel.item)); });
      if (status.ok()) ++consumed_;
    }
    return 1;
  }

  FlowState state_;
  std::atomic<bool> exhausted_{false};
  std::size_t produced_ = 0;  ///< touched by the source node only, until the run is over
  std::size_t consumed_ = 0;  ///< touched by the sink node only, until the run is over

  tbb::flow::graph graph_;
  tbb::flow::input_node<Ticket> tickets_;
  tbb::flow::limiter_node<Ticket, Token> limiter_;
  SourceNode source_;
  tbb::flow::function_node<Parcel<In>, Parcel<Out>> transform_;
  tbb::flow::sequencer_node<Parcel<Out>> sequencer_;
  tbb::flow::function_node<Parcel<Out>, Token> sink_;
};

/// Runs a whole flow and returns its first error, CANCELLED when it was stopped, or OK once the sink has taken
/// everything. After an error or a stop no further call begins.
///   source:    absl::StatusOr<std::optional<In>>(), nothing at the end
///   transform: absl::StatusOr<Out>(In)
///   sink:      absl::Status(Out)
template <typename Source, typename Transform, typename Sink>
absl::Status RunBoundedFlow(const FlowOptions& options, Source source, Transform transform, Sink sink) {
  using In = typename std::invoke_result_t<Source&>::value_type::value_type;
  using Out = typename std::invoke_result_t<Transform&, In>::value_type;
  if (options.max_in_flight == 0) return absl::InvalidArgumentError("a flow needs at least one item in flight");
  return BoundedFlow<In, Out>(options, source, transform, sink).Run();
}

// Blocks of a pass over rows, moved by a flow graph with a limiter (bounded_flow.h): the next blocks are worked on
// while one is taken, and none begins before there is room for it. For stages that run as nodes of the round's graph.

const BlockStream& BlocksInFlow();

}  // namespace fulcrum::pipeline
