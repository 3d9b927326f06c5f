import type { PendingActions } from '../machine.ts'
import type { ControllerAction, ControllerPlan, Piece } from './controller-plan.ts'
import type { Side } from './state.ts'

/** One side's work on an answer: when it starts, pauses and ends, and what its starts tell. Mutable; times are in ms. */
export class SideProgress<P extends Piece> {
  readonly #side: Side
  readonly #plan: ControllerPlan
  readonly #actions: PendingActions<ControllerAction<P>>
  /** 'aside': it works on, and what it sends is kept in case the other side does not take over. */
  phase: 'idle' | 'working' | 'paused' | 'aside' | 'stopped' | 'failed' = 'idle'
  /** Whether it was replaced because it sent nothing more. */
  wasSilent = false
  /** Of the prompt, and of the answer so far, each time it starts. */
  promptTokens = 0
  tokens = 0
  /** Of its last start: when it was, and what it must process before its first token. */
  #startedMs = 0
  #contextTokens = 0
  #firstMs: number | undefined
  #lastMs = 0
  /** Since it was started last. */
  #tokens = 0

  constructor(side: Side, plan: ControllerPlan, actions: PendingActions<ControllerAction<P>>) {
    this.#side = side
    this.#plan = plan
    this.#actions = actions
  }

  get isWorking(): boolean {
    return this.phase === 'working' || this.phase === 'aside'
  }

  /** When it sent its last piece; undefined: it does not work, or has not begun. */
  get lastMs(): number | undefined {
    return this.isWorking && this.#firstMs !== undefined ? this.#lastMs : undefined
  }

  /** Its reader begins to wait for it again. */
  touch(nowMs: number): void {
    this.#lastMs = nowMs
  }

  /** Time that it needs to go on after it was held. */
  returnMs(contextTokens: number): number {
    const side = this.#plan.sides[this.#side]
    if (side?.pauses) return this.#gapMs
    return side?.continues ? side.startMs(contextTokens) : 0
  }

  /** @param after the answer so far, of so many tokens */
  start(after: readonly P[], tokens: number, nowMs: number): void {
    this.#plan.learn.started(this.#side)
    this.phase = 'working'
    this.#startedMs = nowMs
    this.#contextTokens = this.#plan.promptTokens + tokens
    this.promptTokens += this.#contextTokens
    this.#firstMs = undefined
    this.#tokens = 0
    this.#actions.push({ kind: 'start', side: this.#side, after: after.slice() })
  }

  fail(): void {
    if (this.isWorking && this.#firstMs === undefined) this.#plan.learn.failed(this.#side)
    this.phase = 'failed'
  }

  stop(nowMs: number): void {
    if (this.isWorking || this.phase === 'paused') {
      this.#actions.push({ kind: 'stop', side: this.#side })
      if (this.#firstMs === undefined) this.#learn('canceled', nowMs)
    }
    if (this.phase !== 'failed') this.phase = 'stopped'
  }

  /** Stops it in such a way that it can go on if the other side fails. */
  hold(nowMs: number): void {
    const side = this.#plan.sides[this.#side]
    if (side?.pauses) {
      this.phase = 'paused'
      this.#actions.push({ kind: 'pause', side: this.#side })
    } else if (side?.continues) this.stop(nowMs)
    else this.phase = 'aside'
  }

  receive({ tokens, isLast }: P, nowMs: number): void {
    if (this.isWorking && this.#firstMs === undefined) this.#learn('firstToken', nowMs)
    else if (this.isWorking && nowMs > this.#lastMs) this.#plan.learn.gap(this.#side, nowMs - this.#lastMs, tokens)
    if (isLast) this.phase = 'stopped'
    this.#firstMs ??= nowMs
    this.#lastMs = nowMs
    this.#tokens += tokens
    this.tokens += tokens
  }

  /** Goes on after it was held, as fast as before. */
  resume(nowMs: number): void {
    if (this.phase === 'paused') this.#actions.push({ kind: 'resume', side: this.#side })
    this.phase = 'working'
    if (this.#firstMs !== undefined) this.#firstMs += nowMs - this.#lastMs
    this.#lastMs = nowMs
  }

  /** Mean time between its tokens; 0: unknown. */
  get #gapMs(): number {
    return this.#firstMs !== undefined && this.#tokens > 1 ? (this.#lastMs - this.#firstMs) / (this.#tokens - 1) : 0
  }

  #learn(what: 'firstToken' | 'canceled', nowMs: number): void {
    this.#plan.learn[what](this.#side, nowMs - this.#startedMs, this.#contextTokens)
  }
}
