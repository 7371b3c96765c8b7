// A round of J devices, each a row of every array, in the order of `domkl.learning.auto.model`:
//
//     scale -> features -> consensus, recent -> mixer with echo -> prediction
//     label -> guard -> mixer, echo, recent.watch -> consensus.learn, recent.learn
//     messages -> consensus.merge
#include "round.hpp"

#include <stdexcept>

#include "../inverses.hpp"
#include "../thread_pool.hpp"
#include "consensus.hpp"
#include "exchange.hpp"
#include "features.hpp"
#include "guard.hpp"
#include "memory.hpp"
#include "mixer.hpp"
#include "recent.hpp"
#include "trust.hpp"

namespace domkl::DOMKL_ISA {

// The functions are common, alone, own and recent; these go into each mixture, an echo besides.
constexpr int FUNCTIONS = 4, WHOLE = 4, APART = 3;
constexpr int ALONE = 1;
constexpr int IN_WHOLE[WHOLE] = {0, 1, 2, 3}, IN_APART[APART] = {1, 2, 3};
constexpr int JUDGED[3] = {0, 1, 3};  // of the whole mixture: common, alone, recent

static Sizes sizes_of(Fields& of) {
    const auto whole = [&](const char* name) { return int64_t(of.number(name)); };
    return {whole("J"), whole("d"), whole("m"), whole("features.K")};
}

template <class T> class NativeRound final : public Round<T> {
  public:
    NativeRound(Fields& of, std::shared_ptr<Inverses<T>> matrices, int threads)
        : n(sizes_of(of)), Kp(Inverse<T>::padded(n.K)), threads(threads), is_lone(of.number("is_lone") != 0),
          bounds_labels(of.number("bounds_labels") != 0), has_classes(of.number("has_classes") != 0),
          forgets(of.number("forgets") != 0), matrices(std::move(matrices)),
          Q(static_cast<InverseArray<T>&>(*this->matrices)), scale(of, n), map(of, n), consensus(of, n),
          recent(of, n), whole(of, n, "mixture", WHOLE), apart(of, n, "apart", APART), guard(of, n),
          trust(of, n), memory(of, n), columns(n.J * (1 + 2 * n.m) * Kp), found(n.J * (1 + 2 * n.m) * Kp),
          alone(n.J * n.m), terms(n.J * recent.size()), vectors(threads * vector_scratch()),
          numbers(threads * number_scratch()), missing(threads * n.m) {}

    int64_t size() const override { return whole.size(n.J) + apart.size(n.J); }

    bool is_scaled() const override {
        for (int64_t j = 0; j < n.J; ++j)
            if (!scale.is_taken(j)) return false;
        return true;
    }

    void predict(const double* x, double* prediction) override { predict(x, prediction, nullptr); }

    void features(T* z) const override {
        for (int64_t j = 0; j < n.J; ++j)
            std::copy_n(columns.data() + j * (1 + 2 * n.m) * Kp, n.K, z + j * n.K);
    }

    int learn(const double* x, const double* y, const double* weight, const double* past,
              bool has_apart) override {
        double* values = const_cast<double*>(past);  // which `parts` only reads here
        const Mixed all = whole.parts(values, n.J), own = apart.parts(values + whole.size(n.J), n.J);
        memory.make_room();
        for_each([&](int64_t thread, int64_t j) {
            learn(thread, j, x + j * n.d, y + j * n.m, weight ? weight[j] : 1, all,
                  has_apart ? &own : nullptr);
            if (exchange) exchange->send(j);
        });
        memory.finish();
        for (int64_t j = 0; j < n.J; ++j)
            if (scale.may_publish(memory.learnt(j))) return publish;
        return nothing;
    }

    void judge(int64_t R, const int64_t* who, int64_t count, const T* theta, const bool* able,
               bool* used) override {
        std::vector<const T*> each(R * count);
        for (size_t i = 0; i < each.size(); ++i) each[i] = theta + int64_t(i) * n.m * n.K;
        make_room(count);
        for_each(R, [&](int64_t thread, int64_t r) {
            const int64_t at = r * count;
            judge(thread, who[r], count, each.data() + at, able + at, used + at);
        });
    }

    void link(Fields& network) override {
        exchange = std::make_unique<Exchange<T>>(network, n);
        make_room(exchange->most());
        combined = Buffer<T>(threads * 4 * n.m * n.K);
    }

    void rest() override {
        for_each([&](int64_t thread, int64_t j) {
            const Solved<T> s = solved(thread, j);
            consensus.solve(j, Q[j], s, false);
            consensus.rest(j, s);
        });
    }

    int merge(const Incoming<T>& incoming, bool has_learnt) override {
        for_each([&](int64_t, int64_t j) {
            const int64_t at = j * n.m * n.K;
            consensus.merge(j, {incoming.near + at, incoming.moved + at, incoming.mean + at,
                                incoming.moving[j], incoming.weight[j]});
        });
        return finish(has_learnt);
    }

    int close() override {
        for_each([&](int64_t, int64_t j) { consensus.merge(j, {}); });
        return finish(true);
    }

    int learn_alone(const double* x, const double* y, const double* past) override {
        const int due = learn(x, y, nullptr, past, false);
        return due == nothing ? close() : due;
    }

    Progress advance(int64_t rounds, const double* x, const double* y, double* predictions,
                     double* gaps) override {
        if (!is_lone && !exchange) throw std::invalid_argument("there is no network to exchange messages");
        for (int64_t t = 0; t < rounds; x += n.J * n.d, y += n.J * n.m, predictions += size()) {
            predict(x, predictions, is_lone ? nullptr : gaps + t * n.J * n.m);
            int due = is_lone ? learn_alone(x, y, predictions) : learn(x, y, nullptr, predictions, true);
            ++t;
            if (due == nothing && !is_lone) due = exchange_round();
            if (due != nothing) return {t, due};
        }
        return {rounds, nothing};
    }

  private:
    // Ends a round of all devices. Returns what is due.
    int finish(bool has_learnt) {
        int due = nothing;
        for (int64_t j = 0; j < n.J; ++j) {
            if (has_learnt && guard.gives_up(j)) due |= restart;
            if (has_learnt && forgets && recent.is_due(j, whole.echo.repeats(j))) due |= restart;
            if (scale.may_take(j, memory.usable(j))) due |= take;
        }
        if (has_learnt && forgets && !(due & restart))
            for (int64_t j = 0; j < n.J; ++j) recent.count(j);
        return due;
    }

    // Messages that `learn` sent over the network, which devices judge, combine and learn from. Returns what
    // is due.
    int exchange_round() {
        exchange->begin();
        for_each([&](int64_t thread, int64_t j) {
            const int64_t count = exchange->count(j);
            bool *used = flags.data() + thread * 3 * most, *moving = used + most, *able = moving + most;
            std::fill_n(able, count, true);
            judge(thread, j, count, exchange->messages(j), able, used);
            T* sums = combined.data() + thread * 4 * n.m * n.K;
            consensus.merge(j, exchange->combine(j, used, sums, moving));
        });
        exchange->finish();
        return finish(true);
    }

    void judge(int64_t thread, int64_t j, int64_t count, const T* const* theta, const bool* able,
               bool* used) {
        double* missed = errors.data() + thread * most * (trust.scratch() + 1);
        double* means = missed + count * trust.scratch();
        trust.judge(j, count, theta, able, whole.echo.repeats(j), missed, means, used);
    }

    // Room for messages of so many neighbours.
    void make_room(int64_t count) {
        if (count <= most) return;
        most = count;
        errors = Buffer<double>(threads * most * (trust.scratch() + 1));
        flags = Buffer<bool>(threads * 3 * most);
    }

    // How far a device's prediction is from those of its neighbours' parameters, in sum. (m,)
    void note_gaps(int64_t j, double* gaps) const {
        const T* z = columns.data() + j * (1 + 2 * n.m) * Kp;
        for (int64_t i = 0; i < n.m; ++i) {
            const T own = dot_loose(z, exchange->theta(j) + i * n.K, n.K);
            gaps[i] = 0;
            for (int64_t k = 0; k < exchange->count(j); ++k)
                gaps[i] += own - dot_loose(z, exchange->theta(exchange->neighbour(j, k)) + i * n.K, n.K);
            gaps[i] *= scale.width(j, i);
        }
    }

    // Predicts for all devices, and notes their gaps if asked for.
    void predict(const double* x, double* prediction, double* gaps) {
        const Mixed all = whole.parts(prediction, n.J), own = apart.parts(prediction + whole.size(n.J), n.J);
        for_each([&](int64_t thread, int64_t j) {
            predict(thread, j, x + j * n.d, all, own);
            if (gaps) note_gaps(j, gaps + j * n.m);
        });
    }
    void predict(int64_t thread, int64_t j, const double* x, const Mixed& all, const Mixed& own) {
        const Solved<T> s = solved(thread, j);
        const Scratch room = scratch(thread);
        double* b = terms.data() + j * recent.size();
        scale.inputs(j, x, room.inputs);
        map(room.inputs, room.u, s.right);
        consensus.solve(j, Q[j], s, true);
        recent.terms(room.inputs.deviations, room.numbers, b);
        for (int64_t i = 0; i < n.m; ++i) {
            double f[FUNCTIONS], of[WHOLE + 1], low, high;
            consensus.predict(j, i, s, f);
            f[FUNCTIONS - 1] = recent.predict(j, i, b);
            scale.bounds(j, i, low, high);
            for (double& each : f) each = clipped(each, low, high);
            for (int e = 0; e < WHOLE; ++e) of[e] = f[IN_WHOLE[e]];
            whole.predict(j, i, of, low, high, scale, all);
            if (is_lone) continue;
            for (int e = 0; e < APART; ++e) of[e] = f[IN_APART[e]];
            apart.predict(j, i, of, low, high, scale, own);
        }
        if (!has_classes) return;
        make_probable(all.y + j * n.m);
        if (!is_lone) make_probable(own.y + j * n.m);
    }

    // Makes probabilities of the scores of classes (m,), as `losses.probabilities` does.
    void make_probable(double* y) const {
        double total = 0;
        for (int64_t i = 0; i < n.m; ++i) total += std::max(y[i], 0.0);
        for (int64_t i = 0; i < n.m; ++i) y[i] = total > 0 ? std::max(y[i], 0.0) / total : 1 / double(n.m);
    }

    void learn(int64_t thread, int64_t j, const double* x, const double* labels, double weight,
               const Mixed& all, const Mixed* own) {
        const Solved<T> s = solved(thread, j);
        const Scratch room = scratch(thread);
        double *y = room.labels, *scaled = y + n.m, *missed = scaled + n.m;
        bool* absent = missing.data() + thread * n.m;
        const double *b = terms.data() + j * recent.size(), *y_hat = all.y + j * n.m;
        const int64_t known = find_missing(j, labels, weight, absent);
        for (int64_t i = 0; i < n.m; ++i) y[i] = absent[i] ? y_hat[i] : labels[i];
        if (bounds_labels) guard.bound(j, y, y_hat, absent, room.numbers);
        for (int64_t i = 0; i < n.m; ++i) scaled[i] = scale.scaled(j, i, y[i]);
        for (int64_t i = 0; i < n.m; ++i) {
            if (!absent[i]) scale.note_target(j, i, y[i]);
            else if (weight == 0) y[i] = NAN;
        }
        memory.add(j, x, y, weight);
        if (known) judge(j, scaled, absent, known, all, own, missed);
        trust.note(j, s.right, scaled, absent, missed + ALONE, WHOLE + 1);
        for (int64_t i = 0; i < n.m; ++i)
            if (absent[i]) scaled[i] = s.alone[i];
        consensus.learn(j, Q[j], s, scaled, 2 * whole.echo.weight(j) * weight);
        for (int64_t i = 0; i < n.m; ++i)
            if (absent[i]) scaled[i] = recent.predict(j, i, b);
        recent.learn(j, b, scaled, weight, room.numbers);
    }

    // Which labels (m,) are missing: all of a sample that does not count, which it does not either where none
    // is known, or one that is missing was never known. Returns how many are known.
    int64_t find_missing(int64_t j, const double* labels, double& weight, bool* absent) const {
        int64_t known = 0;
        bool is_enough = true;
        for (int64_t i = 0; i < n.m; ++i) {
            absent[i] = !(weight > 0) || std::isnan(labels[i]);
            known += !absent[i];
            is_enough &= !absent[i] || scale.has_target(j, i);
        }
        if (known == 0 || !is_enough) weight = 0;
        return known;
    }

    // Weighs the experts by what they predicted, and notes errors for the restart.
    void judge(int64_t j, const double* y, const bool* absent, int64_t known, const Mixed& all,
               const Mixed* own, double* missed) {
        double total = 0, parts[3] = {};
        if (!is_lone && own) apart.learn(j, y, absent, *own, scale, missed);
        whole.learn(j, y, absent, all, scale, missed);  // the errors that stay in `missed`
        for (int64_t i = 0; i < n.m; ++i) {
            if (absent[i]) continue;
            const double error = scale.scaled(j, i, all.y[j * n.m + i]) - y[i];
            total += error * error;
            for (int p = 0; p < 3; ++p) parts[p] += missed[i * (WHOLE + 1) + JUDGED[p]] / double(known);
        }
        recent.watch(j, total / double(known), parts);
    }

    // Space for one row's numbers that nothing keeps.
    struct Scratch {
        T* u;
        Inputs inputs;
        double *labels, *numbers;
    };
    int64_t vector_scratch() const { return 3 * Kp + Inverse<T>::padded(map.inputs()); }
    int64_t number_scratch() const {
        const int64_t most = std::max(recent.scratch(), guard.scratch());
        return Inverse<double>::padded(most + 3 * n.d + (2 + WHOLE + 1) * n.m) + 8;
    }
    Scratch scratch(int64_t thread) {
        double *first = numbers.data() + thread * number_scratch(),
               *at = first + std::max(recent.scratch(), guard.scratch());
        return {vectors.data() + thread * vector_scratch() + 3 * Kp, Inputs{at, at + n.d, at + 2 * n.d},
                at + 3 * n.d, first};
    }
    Solved<T> solved(int64_t thread, int64_t j) {
        const int64_t at = j * (1 + 2 * n.m) * Kp;
        return {columns.data() + at, found.data() + at, vectors.data() + thread * vector_scratch(),
                alone.data() + j * n.m};
    }

    template <class Work> void for_each(const Work& work) { for_each(n.J, work); }
    template <class Work> void for_each(int64_t rows, const Work& work) {
        if (threads > 1 && rows > 1) return pool.get(threads).run(rows, work);
        for (int64_t j = 0; j < rows; ++j) work(0, j);
    }

    Sizes n;
    int64_t Kp;
    int threads;
    bool is_lone, bounds_labels, has_classes, forgets;
    std::shared_ptr<Inverses<T>> matrices;
    InverseArray<T>& Q;
    Scale scale;
    Features<T> map;
    Consensus<T> consensus;
    Recent recent;
    Mixture whole, apart;
    Guard guard;
    Trust<T> trust;
    Memory memory;
    Buffer<T> columns, found, alone;  // of every row, from its prediction to its label
    Buffer<double> terms;
    Buffer<T> vectors;  // of every thread
    Buffer<double> numbers;
    Buffer<bool> missing;
    LazyThreadPool pool;
    std::unique_ptr<Exchange<T>> exchange;
    int64_t most = 0;  // neighbours that there is room for, in each thread
    Buffer<double> errors;
    Buffer<T> combined;
    Buffer<bool> flags;
};

template <class T>
std::unique_ptr<Round<T>> make_round(Fields& fields, std::shared_ptr<Inverses<T>> Q, int threads) {
    return std::make_unique<NativeRound<T>>(fields, std::move(Q), threads);
}
template std::unique_ptr<Round<double>> make_round(Fields&, std::shared_ptr<Inverses<double>>, int);
template std::unique_ptr<Round<float>> make_round(Fields&, std::shared_ptr<Inverses<float>>, int);

}  // namespace domkl::DOMKL_ISA
