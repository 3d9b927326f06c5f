import { AnswerText } from '../../core/answer/endpoint/answer-text.ts'
import type { AnswerDelta, AnswerRequest } from '../../core/answer/endpoint/endpoint.ts'
import type { DiscoFigures } from '../../core/answer/endpoint/figures.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import { type Answered, type RemoteModel, sharesTokens, type TextModel } from '../../core/answer/endpoint/text-model.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { ControllerAction, ControllerInput } from '../../core/policy/disco/controller-plan.ts'
import type { NumberedPiece } from '../../core/policy/disco/dispatch-machine.ts'
import { otherSide, reportedSide, type Side } from '../../core/policy/disco/state.ts'
import { Barrier } from './barrier.ts'
import type { BudgetedRun } from './budget.ts'
import { canceled, contextFull, isReplaceable, silent, withoutRoom } from './failures.ts'
import { answeredAfter, type DeltaPiece, piecesOf } from './pieces.ts'
import type { EndpointPlan } from './plan.ts'
import type { AnswerSide } from './side.ts'
import { type RunListener, SideRun } from './side-run.ts'

export interface DispatchOptions {
  /** In whose tokens prompts of token ids are. */
  readonly model: TextModel | RemoteModel
  readonly clock: Clock
}

/** One answer that is being made: does what its controller demands, and tells it what happens. */
export class DispatchedAnswer implements RunListener {
  readonly #plan: EndpointPlan
  readonly #request: AnswerRequest
  readonly #options: DispatchOptions
  readonly #signal: AbortSignal
  /** What the sides have sent, by number. */
  readonly #pieces: DeltaPiece[] = []
  readonly #runs = new Map<Side, SideRun>()
  readonly #closed: Promise<void>[] = []
  /** Delivered by the controller, and not taken by the reader. */
  readonly #delivered: AnswerDelta[] = []
  readonly #taken = new Barrier()
  readonly #changed = new Barrier()
  readonly #ending = new AbortController()
  #time: { readonly clockMs: number; readonly ms: number }
  #timer: { readonly atMs: number; readonly stop: AbortController } | undefined
  #failure: { readonly error: unknown } | undefined
  /** The end of a side whose context was full: that of the answer, if the other side cannot go on. */
  #contextEnd: AnswerDelta | undefined
  #takenTokens = 0
  /** Why a side answers for the other one. */
  readonly #causes = new Map<Side, BrimError>()
  #lastError: BrimError | undefined

  constructor(plan: EndpointPlan, request: AnswerRequest, options: DispatchOptions, signal: AbortSignal) {
    this.#plan = plan
    this.#request = request
    this.#options = options
    const clockMs = options.clock.nowMs()
    this.#time = { clockMs, ms: clockMs }
    this.#signal = AbortSignal.any([signal, this.#ending.signal])
  }

  /** Call `close` after it. @throws BrimError of the side that failed last; CANCELED */
  async *deltas(): AsyncGenerator<AnswerDelta, void> {
    this.#signal.addEventListener('abort', () => this.#fail(canceled(this.#signal)), { once: true })
    if (this.#signal.aborted) throw canceled(this.#signal)
    this.#handle({ kind: 'begin' })
    while (true) {
      if (this.#signal.aborted) throw canceled(this.#signal)
      const delta = this.#delivered.shift()
      if (delta) {
        this.#takenTokens += tokensOf(delta)
        yield delta
        if (delta.end) return
      } else {
        if (this.#failure) throw this.#failure.error
        this.#changed.close()
        this.#taken.open()
        await this.#changed.passed
      }
    }
  }

  /** Stops all work. Resolves when it has freed what it held. */
  async close(): Promise<void> {
    const isLost = this.#failure !== undefined
    const tokens = this.#plan.controller.isOver ? this.#plan.controller.tokens : this.#takenTokens
    this.#plan.handle({ kind: 'left' }, this.#nowMs)
    this.#ending.abort(new BrimError('CANCELED', 'the answer has ended'))
    for (const side of sides) this.#stop(side)
    this.#timer?.stop.abort()
    await Promise.all(this.#closed)
    this.#plan.ended(isLost ? undefined : tokens)
  }

  onDelta(run: SideRun, delta: AnswerDelta): void {
    const side = this.#sideOf(run)
    if (!side) return
    const isFull = this.#hasFilledContext(side, run, delta)
    const cause = this.#causes.get(side)
    const content = { ...delta, ...(cause && { cause }), ...(isFull && { end: undefined }) }
    for (const piece of piecesOf(content, this.#plan.tokensPerS > 0)) {
      this.#contextEnd = undefined
      run.tokens += piece.tokens
      run.cost?.arrived(piece.tokens)
      if (piece.isLast) run.cost?.completed('text' in delta ? delta.promptTokens : undefined)
      if (!piece.isLast && run.stops?.push(piece.delta).end) {
        this.#received(side, { ...piece, isLast: true, delta: { ...piece.delta, end: 'length' } })
        this.#stop(side)
        return
      }
      this.#received(side, piece)
    }
    if (!isFull || this.#sideOf(run) !== side) return
    this.#contextEnd = 'text' in delta ? { ...delta, text: '', tokenCount: 0 } : { ...delta, tokens: [] }
    this.#runs.delete(side)
    this.#failed(side, contextFull(delta.source.model.name))
  }

  onFailure(run: SideRun, error: unknown): void {
    const side = this.#sideOf(run)
    if (!side) return
    this.#runs.delete(side)
    // The answer does not depend on a side that fails beside the one that writes.
    const mode = this.#plan.controller.needs(side) ? this.#plan.mode : undefined
    if (this.#signal.aborted || !isReplaceable(error, mode)) {
      this.#plan.handle({ kind: 'left', failed: side }, this.#nowMs)
      this.#fail(error)
    } else this.#failed(side, withoutRoom(error, this.#causes.get(side), this.#plan.sides[side]!.endpoint.model.name))
  }

  #received(side: Side, piece: DeltaPiece): void {
    const { tokens, isLast, border } = piece
    const id = this.#pieces.push(piece) - 1
    this.#handle({ kind: 'received', side, piece: { id, tokens, isLast, border } })
  }

  /** Goes on from where it was when the clock jumps back, so that the answer does not wait for what is past. */
  get #nowMs(): number {
    const clockMs = this.#options.clock.nowMs()
    this.#time = { clockMs, ms: this.#time.ms + Math.max(0, clockMs - this.#time.clockMs) }
    return this.#time.ms
  }

  /** Undefined: the side was stopped, or started again. */
  #sideOf(run: SideRun): Side | undefined {
    return sides.find((side) => this.#runs.get(side) === run)
  }

  #failed(side: Side, error: BrimError): void {
    this.#lastError = error
    if (this.#plan.controller.needs(side)) this.#causes.set(otherSide(side), error)
    this.#handle({ kind: 'failed', side })
    this.#awaitReturn(side)
  }

  /** For an answer that is to return to a side that has failed, or was silent. */
  #awaitReturn(side: Side): void {
    const { preferred } = this.#plan
    if (preferred?.reason !== 'return' || preferred.side !== side) return
    const { clock } = this.#options
    const reachable = this.#plan.sides[side]?.untilReachable?.(this.#signal) ?? clock.sleep(retryMs, this.#signal)
    reachable
      .then(() => this.#handle({ kind: 'reachable', side }))
      .catch((error) => {
        if (!this.#signal.aborted) this.#fail(error)
      })
  }

  #handle(input: ControllerInput<NumberedPiece>): void {
    if (!this.#signal.aborted) this.#apply(this.#plan.handle(input, this.#nowMs))
  }

  #apply(actions: readonly ControllerAction<NumberedPiece>[]): void {
    for (const action of actions) {
      if (action.kind === 'start') {
        if (this.#isForSilence(action.side)) this.#causes.set(action.side, silent(this.#plan.sides[otherSide(action.side)]!))
        this.#start(
          action.side,
          action.after.map(({ id }) => this.#pieces[id]!),
        )
      } else if (action.kind === 'stop') {
        // The other side sends again.
        if (this.#isForSilence(action.side)) this.#causes.delete(action.side)
        this.#stop(action.side)
        const last = this.#plan.controller.migrations.at(-1)
        if (last?.reason === 'silence' && last.from === action.side && last.succeeded) this.#awaitReturn(action.side)
      } else if (action.kind === 'pause') this.#runs.get(action.side)?.pause()
      else if (action.kind === 'resume') this.#runs.get(action.side)?.resume()
      else if (action.kind === 'deliver') this.#deliver(this.#pieces[action.piece.id]!.delta)
      else if (this.#contextEnd) this.#deliver(this.#contextEnd)
      else this.#fail(this.#lastError)
    }
    this.#schedule()
  }

  /** Whether a side is to go on for one that has fallen silent, and has not begun. */
  #isForSilence(side: Side): boolean {
    const last = this.#plan.controller.migrations.at(-1)
    return last?.reason === 'silence' && last.to === side && !last.succeeded
  }

  #start(side: Side, after: readonly DeltaPiece[]): void {
    const target = this.#plan.sides[side]!
    const request = this.#request
    const tokens = after.reduce((sum, piece) => sum + piece.tokens, 0)
    // What goes on for another side ends with its context, as any continuation does.
    const isContinued = after.length > 0 || request.answered || (this.#causes.has(side) && target.endpoint.model.tokenizer)
    const left: AnswerRequest = {
      ...request,
      ...(isContinued && { answered: answeredAfter(request.answered ?? nothingAnswered(this.#options.model), after) }),
      ...(request.maxTokens !== undefined && { maxTokens: Math.max(1, request.maxTokens - tokens) }),
    }
    const allowed = this.#allow(side, target, left, tokens)
    const cost = 'error' in allowed ? undefined : allowed.run
    const asked: AnswerRequest = {
      ...left,
      ...(cost?.maxTokens !== undefined && { maxTokens: cost.maxTokens }),
      ...(cost && target.maxPromptTokens && { billing: cost }),
    }
    const run = new SideRun(
      {
        answer: 'error' in allowed ? () => failing(allowed.error) : (...args) => this.#answerOf(target, ...args),
        request: asked,
        signal: this.#signal,
        taken: this.#taken,
        cost,
        // The reader looks for stop strings itself; where it is far behind, much would be computed in vain.
        stops:
          this.#plan.tokensPerS > 0 && request.stop.length > 0
            ? new AnswerText(asked.answered ?? nothingAnswered(target.endpoint.model), request.stop)
            : undefined,
      },
      this,
    )
    this.#runs.set(side, run)
    this.#closed.push(run.closed)
  }

  /** What the budget allows a start of a side to cost, or why it does not allow it. @param tokens of the answer before */
  #allow(side: Side, target: AnswerSide, request: AnswerRequest, tokens: number): { run: BudgetedRun } | { error: BrimError } {
    const plan = this.#plan
    const counted = (target.promptTokens ?? plan.promptTokens) + tokens
    const limits = { promptTokens: target.maxPromptTokens?.(request) ?? counted, tokens: request.maxTokens }
    try {
      return { run: plan.start(side, { promptTokens: counted, limits, isBilled: target.maxPromptTokens !== undefined }) }
    } catch (error) {
      if (!(error instanceof BrimError)) throw error
      return { error }
    }
  }

  /** Sides that share the tokens of the endpoint's model read the prompt in them. */
  async *#answerOf({ endpoint }: AnswerSide, request: AnswerRequest, signal: AbortSignal): AsyncGenerator<AnswerDelta, void> {
    const { model } = this.#options
    const { model: own } = endpoint
    const isShared = model !== own && model.tokenizer && own.tokenizer && sharesTokens(own, model)
    const prompt = isShared
      ? new Prompt({ kind: 'ids', tokens: { model, ids: await request.prompt.idsFor(model, request.client, signal) } })
      : request.prompt
    yield* endpoint.answer({ ...request, prompt }, signal)
  }

  #stop(side: Side): void {
    const run = this.#runs.get(side)
    if (!run) return
    this.#runs.delete(side)
    run.stop()
  }

  #deliver(delta: AnswerDelta): void {
    this.#delivered.push({ ...delta, disco: () => this.#figures() })
    this.#taken.close()
    this.#changed.open()
  }

  #fail(error: unknown): void {
    this.#failure ??= { error }
    this.#changed.open()
  }

  #schedule(): void {
    const atMs = this.#plan.controller.wakeMs
    if (this.#timer?.atMs === atMs) return
    this.#timer?.stop.abort()
    this.#timer = undefined
    if (atMs === undefined) return
    const stop = new AbortController()
    this.#timer = { atMs, stop }
    const { clock } = this.#options
    const wake = () => {
      this.#timer = undefined
      this.#handle({ kind: 'tick', ...(this.#taken.passed && { isHeld: true }) })
    }
    const sleeping = clock.sleep(Math.min(maxTimerMs, Math.ceil(Math.max(0, atMs - this.#nowMs))), stop.signal)
    sleeping.then(wake).catch((error) => {
      if (!stop.signal.aborted) this.#fail(error)
    })
  }

  /** Whether a side ends because its context is full, and the other one may have room for more. */
  #hasFilledContext(side: Side, run: SideRun, delta: AnswerDelta): boolean {
    if (delta.end !== 'length' || 'text' in delta) return false
    const { maxTokens } = run.request
    if (maxTokens !== undefined && run.tokens + delta.tokens.length >= maxTokens) return false
    const other = this.#plan.sides[otherSide(side)]?.endpoint.model
    if (!other || !this.#plan.controller.canReplace(side)) return false
    return !other.tokenizer || other.dims.contextLimit > delta.source.model.dims.contextLimit
  }

  #figures(): DiscoFigures {
    const { mode, constrained, dispatch, tokensPerS, costOf, exhausted, sides, ways } = this.#plan
    const startMs = (side: Side) => (sides[side] && Number.isFinite(dispatch[side]) ? dispatch[side] : null)
    const { winner, migrations, stalls, stalledMs } = this.#plan.controller
    const { rule } = this.#request.disclosed ?? {}
    return {
      mode,
      constrained: constrained ? reportedSide(constrained) : null,
      startMs: { device: startMs('local'), server: startMs('remote') },
      winner: winner ? reportedSide(winner) : null,
      migrations: migrations.map(({ from, to, ...rest }) => ({ from: reportedSide(from), to: reportedSide(to), ...rest })),
      exhausted: exhausted ?? null,
      cost: { device: costOf('local'), server: costOf('remote') },
      tokensPerS,
      stalls,
      stalledMs,
      ...(ways && { ways }),
      ...(rule && { rule }),
    }
  }
}

const sides: readonly Side[] = ['local', 'remote']
/** After which an answer is to return to a side that does not tell when it can be reached. */
const retryMs = 5_000
/** Of Node. */
const maxTimerMs = 2 ** 31 - 1

// biome-ignore lint/correctness/useYield: an endpoint that may not answer
async function* failing(error: BrimError): AsyncGenerator<AnswerDelta, void> {
  throw error
}

const nothingAnswered = (model: DispatchOptions['model']): Answered => (model.tokenizer ? { model, ids: [] } : { text: '' })

const tokensOf = (delta: AnswerDelta): number => ('text' in delta ? delta.tokenCount : delta.tokens.length)
