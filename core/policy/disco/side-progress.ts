import type { Piece } from './controller-plan.ts'

/** What one side has done for an answer. Mutable; times are in ms. */
export class SideProgress {
  /** 'aside': it works on, and what it sends is kept in case the other side does not take over. */
  phase: 'idle' | 'working' | 'paused' | 'aside' | 'stopped' | 'failed' = 'idle'
  /** Of the prompt, and of the answer so far, each time it starts. */
  promptTokens = 0
  tokens = 0
  /** Of its last start: when it was, and what it must process before its first token. */
  startedMs = 0
  contextTokens = 0
  #firstMs: number | undefined
  #lastMs = 0
  /** Since it was started last. */
  #tokens = 0

  get isWorking(): boolean {
    return this.phase === 'working' || this.phase === 'aside'
  }

  /** Mean time between its tokens; 0: unknown. */
  get gapMs(): number {
    return this.#firstMs !== undefined && this.#tokens > 1 ? (this.#lastMs - this.#firstMs) / (this.#tokens - 1) : 0
  }

  /** Whether its last start has led to a token. */
  get hasBegun(): boolean {
    return this.#firstMs !== undefined
  }

  /** @param tokens that it must process before its first one */
  start(tokens: number, nowMs: number): void {
    this.phase = 'working'
    this.startedMs = nowMs
    this.contextTokens = tokens
    this.promptTokens += tokens
    this.#firstMs = undefined
    this.#tokens = 0
  }

  receive({ tokens, isLast }: Piece, nowMs: number): void {
    if (isLast) this.phase = 'stopped'
    this.#firstMs ??= nowMs
    this.#lastMs = nowMs
    this.#tokens += tokens
    this.tokens += tokens
  }

  /** Goes on after it was paused, as fast as before. */
  resume(nowMs: number): void {
    this.phase = 'working'
    if (this.#firstMs !== undefined) this.#firstMs += nowMs - this.#lastMs
    this.#lastMs = nowMs
  }
}
