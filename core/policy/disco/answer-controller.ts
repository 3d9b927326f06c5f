import { type HandlersOf, handleKind, type Machine, noActions, PendingActions } from '../machine.ts'
import { AnswerBuffer } from './answer-buffer.ts'
import type { ControllerAction, ControllerInput, ControllerPlan, Migration, Piece, SideWork } from './controller-plan.ts'
import { type Attempt, bufferTokens, migrationPays } from './migration.ts'
import { SideProgress } from './side-progress.ts'
import { silentAtMs } from './silent-source.ts'
import { otherSide, type Side } from './state.ts'

/** Attempts to migrate that may fail before the source finishes the answer alone. */
const maxFailedMigrations = 2
/** Tokens between a failed migration and the next attempt, which demands twice the buffer. */
const retryAfterTokens = 16
/** Without a buffer, a target is given up after so many times its estimate, but not before so many ms. */
const unbufferedPatience = { times: 2, minMs: 1_000 }

const never = Number.POSITIVE_INFINITY

/**
 * The controller of one answer: which side works, which tokens the reader gets, and when (DiSCo §4). The sides race for the first
 * token; the answer moves to the side that is to write it once the reader's buffer lasts until that side's first token; where a
 * side fails, the other one goes on. Mutable; times are in ms of a clock that never goes back.
 */
export class AnswerController<P extends Piece> implements Machine<ControllerInput<P>, ControllerAction<P>> {
  readonly #plan: ControllerPlan
  readonly #sharesTokens: boolean
  readonly #buffer: AnswerBuffer<P>
  readonly #sides: Readonly<Record<Side, SideProgress<P>>>
  readonly #migrations: { -readonly [key in keyof Migration]: Migration[key] }[] = []
  readonly #actions = new PendingActions<ControllerAction<P>>()
  /** Of the present input. */
  #nowMs = 0
  #begunMs = 0
  #winner: Side | undefined
  /** The side that writes the answer. Undefined before the first token, and from a failure until the other side's first token. */
  #source: Side | undefined
  #attempt: Attempt<P> | undefined
  #failedMigrations = 0
  /** Tokens of the answer before which no migration is attempted again. */
  #retryAt = 0
  /** When the next token is to be read, as long as tokens after a migration come too late. */
  #lateAfterMs: number | undefined
  /** When the source may count as silent: not later than that. */
  #watchMs = never
  /** Whether the other side has failed to replace the silent source. */
  #isIrreplaceable = false
  /** No side can go on. */
  #isLost = false
  #isOver = false
  readonly #handlers: HandlersOf<ControllerInput<P>> = {
    begin: () => this.#beginAnswer(),
    tick: ({ isHeld }) => {
      if (isHeld) for (const side of sides) this.#sides[side].touch(this.#nowMs)
    },
    received: ({ side, piece }) => this.#receive(side, piece),
    failed: ({ side }) => this.#fail(side),
    reachable: ({ side }) => this.#onReachable(side),
    left: ({ failed }) => this.#end(failed),
  }

  /** @param sharesTokens whether each side can go on after the other one's very tokens */
  constructor(plan: ControllerPlan, sharesTokens: boolean) {
    this.#plan = plan
    this.#sharesTokens = sharesTokens
    this.#buffer = new AnswerBuffer(plan.tokensPerS)
    const sideOf = (side: Side) => new SideProgress(side, plan, this.#actions)
    this.#sides = { local: sideOf('local'), remote: sideOf('remote') }
  }

  /** Whether all is delivered, or the answer has failed. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** Whether one side is to take over from the other, and has not begun. */
  get isMigrating(): boolean {
    return this.#attempt !== undefined
  }

  /** The side of the first token. */
  get winner(): Side | undefined {
    return this.#winner
  }

  /** Tokens of the answer so far, delivered or not. */
  get tokens(): number {
    return this.#buffer.tokens
  }

  get migrations(): readonly Migration[] {
    return this.#migrations
  }

  get stalls(): number {
    return this.#buffer.stalls
  }

  get stalledMs(): number {
    return this.#buffer.stalledMs
  }

  workOf(side: Side): SideWork {
    const { promptTokens, tokens } = this.#sides[side]
    return { promptTokens, tokens }
  }

  /** Whether the answer fails with this side, unless the other one goes on. */
  needs(side: Side): boolean {
    return !this.#buffer.isComplete && (this.#source ?? this.#attempt?.to ?? side) === side
  }

  /** Whether the other side could go on now if this one failed. */
  canReplace(side: Side): boolean {
    const other = this.#plan.sides[otherSide(side)]
    return (
      other !== undefined && this.#sides[otherSide(side)].phase !== 'failed' && (other.continues || !this.#buffer.hasDelivered)
    )
  }

  get wakeMs(): number | undefined {
    if (this.#isOver) return undefined
    const { dueMs = never } = this.#buffer
    const giveUpMs = this.#attempt?.giveUpMs ?? never
    const wakeMs = Math.min(dueMs, giveUpMs, this.#watchMs, this.#startsMs('remote'), this.#startsMs('local'))
    return wakeMs === never ? undefined : wakeMs
  }

  handle(input: ControllerInput<P>, nowMs: number): readonly ControllerAction<P>[] {
    if (this.#isOver) return noActions
    this.#nowMs = nowMs
    handleKind<ControllerInput<P>>(this.#handlers, input)
    if (!this.#isOver) this.#advance()
    return this.#actions.take()
  }

  #beginAnswer(): void {
    this.#begunMs = this.#nowMs
  }

  #onReachable(side: Side): void {
    if (this.#sides[side].phase === 'failed') this.#sides[side].phase = 'stopped'
    this.#sides[side].wasSilent = false
    this.#considerMigration()
  }

  #end(failed: Side | undefined): void {
    if (failed) this.#sides[failed].fail()
    for (const side of sides) this.#sides[side].stop(this.#nowMs)
    this.#isOver = true
  }

  #receive(side: Side, piece: P): void {
    const attempt = this.#attempt
    const progress = this.#sides[side]
    const { isWorking } = progress
    progress.receive(piece, this.#nowMs)
    if (attempt?.from === side) {
      attempt.aside.push(piece)
      // It has written the whole answer, so that nothing is left for the target; or works again.
      if (piece.isLast || attempt.isForSilence) this.#giveUp(attempt)
    } else {
      if (attempt?.to === side) this.#takeOver(attempt)
      else if (this.#source === undefined && isWorking) this.#win(side)
      if (this.#source === side) this.#append(piece)
    }
  }

  #fail(side: Side): void {
    const attempt = this.#attempt
    const isNeeded = this.needs(side)
    this.#sides[side].fail()
    if (attempt?.from === side) {
      attempt.giveUpMs = never
      this.#source = undefined
    } else if (attempt?.to === side && this.#source) {
      this.#isIrreplaceable ||= attempt.isForSilence === true
      this.#giveUp(attempt)
      this.#sides[side].phase = 'stopped'
    } else if (isNeeded) this.#replace(side)
  }

  #advance(): void {
    for (const side of sides) if (this.#startsMs(side) <= this.#nowMs) this.#start(side)
    if (this.#attempt && this.#attempt.giveUpMs <= this.#nowMs) this.#giveUp(this.#attempt)
    this.#watch()
    for (let piece = this.#buffer.take(this.#nowMs); piece; piece = this.#buffer.take(this.#nowMs)) {
      this.#actions.push({ kind: 'deliver', piece })
      this.#isOver = piece.isLast
    }
    if (!this.#isLost || this.#buffer.hasUnread || this.#isOver) return
    this.#isOver = true
    this.#actions.push({ kind: 'fail' })
  }

  /** Has the other side go on for a source that has fallen silent, unless that sends something first. */
  #watch(): void {
    const from = this.#source
    const lastMs = from && this.#sides[from].lastMs
    const { lateMs } = (from && this.#plan.sides[from]) ?? {}
    const isWatched = lateMs !== undefined && !this.#attempt && !this.#isIrreplaceable && !this.#buffer.isComplete
    const watchMs = this.#watchMs
    this.#watchMs = never
    if (!from || lastMs === undefined || !isWatched || !this.canReplace(from)) return
    this.#watchMs = watchMs
    // Until then nothing is to be computed, as pieces come often.
    if (this.#nowMs < watchMs && watchMs < never) return
    const to = otherSide(from)
    // Sides that share no tokens make a part of the buffer again.
    const tail = this.#sharesTokens ? { at: this.#buffer.pieces.length, tokens: 0 } : this.#buffer.tail()
    const startMs = this.#plan.sides[to]!.startMs(this.#plan.promptTokens + this.#buffer.tokens)
    this.#watchMs = silentAtMs({ lastMs, lateMs, emptyMs: this.#buffer.emptyMs(tail.tokens), startMs }, this.#nowMs)
    if (this.#watchMs > this.#nowMs) return
    this.#watchMs = never
    this.#sides[from].phase = 'aside'
    const attempt = { from, to, giveUpMs: never, aside: this.#buffer.cut(tail.at), isForSilence: true }
    this.#begin(attempt, 'silence', this.#buffer.lastsUntilMs(this.#nowMs))
  }

  /** When a side starts by itself. */
  #startsMs(side: Side): number {
    const isOpen = this.#winner === undefined && this.#sides[side].phase === 'idle' && this.#plan.sides[side] !== undefined
    return isOpen ? this.#begunMs + this.#plan.dispatch[side] : never
  }

  #start(side: Side): void {
    this.#sides[side].start(this.#buffer.pieces, this.#buffer.tokens, this.#nowMs)
  }

  #win(side: Side): void {
    this.#winner = side
    this.#source = side
    this.#sides[otherSide(side)].stop(this.#nowMs)
  }

  #append(piece: P): void {
    this.#countDelay(piece)
    this.#buffer.push(piece, this.#nowMs)
    this.#considerMigration()
  }

  #considerMigration(): void {
    const { sides, preferred, tokensPerS, promptTokens, expectedRemaining, returns = true } = this.#plan
    const from = this.#source
    if (!preferred || !from || preferred.side === from || this.#attempt || this.#buffer.isComplete) return
    const { side: to, reason } = preferred
    const source = sides[from]
    const target = sides[to]
    const { tokens, unread } = this.#buffer
    if (!source || !target?.continues || this.#sides[to].phase === 'failed') return
    if (this.#sides[to].wasSilent) return
    if (this.#failedMigrations >= maxFailedMigrations || tokens < this.#retryAt) return

    const contextTokens = promptTokens + tokens
    const startMs = target.startMs(contextTokens)
    if (startMs === never) return
    const returnMs = returns ? this.#sides[from].returnMs(contextTokens) : 0
    // A source that comes back in time, after the target has failed to start in time, takes its part of the buffer.
    const neededTokens = bufferTokens(tokensPerS, (startMs + returnMs) * 2 ** this.#failedMigrations)
    if (tokensPerS > 0 && unread < Math.max(1, neededTokens)) return
    const remainingTokens = expectedRemaining(tokens)
    const { costs } = target
    if (reason === 'cost') {
      if (!source.costs || !costs || !migrationPays({ source: source.costs, target: costs, contextTokens, remainingTokens }))
        return
    }
    const tail = this.#tail()
    if (!tail || (tokensPerS > 0 && unread - tail.tokens < Math.max(1, neededTokens))) return

    const aside = this.#buffer.cut(tail.at)
    const lastsUntilMs = this.#buffer.lastsUntilMs(this.#nowMs)
    const patienceMs = Math.max(unbufferedPatience.times * startMs, unbufferedPatience.minMs)
    const giveUpMs = !returns ? never : tokensPerS > 0 ? lastsUntilMs - returnMs : this.#nowMs + patienceMs
    this.#sides[from].hold(this.#nowMs)
    this.#begin({ from, to, giveUpMs, aside }, reason, lastsUntilMs)
  }

  /** Where the target goes on: after the last token, or where it reads text, before unread pieces that are made again. */
  #tail(): { readonly at: number; readonly tokens: number } | undefined {
    if (this.#sharesTokens) return { at: this.#buffer.pieces.length, tokens: 0 }
    const tail = this.#buffer.tail()
    // Without a buffer there is a better place soon.
    return this.#plan.tokensPerS > 0 || tail.border === 'word' ? tail : undefined
  }

  #begin(attempt: Attempt<P>, reason: Migration['reason'], lastsUntilMs: number): void {
    const { from, to } = attempt
    const { tokens: afterTokens, unread: bufferTokens } = this.#buffer
    this.#attempt = attempt
    this.#migrations.push({ from, to, reason, afterTokens, bufferTokens, delayedTokens: 0, succeeded: false })
    this.#lateAfterMs = this.#plan.tokensPerS > 0 ? lastsUntilMs : undefined
    this.#start(to)
  }

  #takeOver({ from, to, isForSilence }: Attempt<P>): void {
    this.#attempt = undefined
    this.#migrations.at(-1)!.succeeded = true
    // Not learned as a gap: silence without an end would make the next ones last longer and longer.
    if (isForSilence) this.#sides[from].wasSilent = true
    this.#sides[from].stop(this.#nowMs)
    this.#source = to
  }

  /** The source goes on with what it has. */
  #giveUp({ from, to, aside, isForSilence }: Attempt<P>): void {
    this.#attempt = undefined
    this.#sides[to].stop(this.#nowMs)
    if (!isForSilence) this.#failedMigrations += 1
    for (const piece of aside) this.#buffer.push(piece, this.#nowMs)
    this.#retryAt = this.#buffer.tokens + retryAfterTokens
    if (this.#lateAfterMs !== undefined) this.#lateAfterMs = this.#buffer.lastsUntilMs(this.#nowMs)
    const source = this.#sides[from]
    if (this.#buffer.isComplete) source.stop(this.#nowMs)
    else if (source.phase === 'stopped') this.#start(from)
    else source.resume(this.#nowMs)
  }

  /** The other side goes on for one that has failed. */
  #replace(failed: Side): void {
    const to = otherSide(failed)
    const hasBegun = this.#source !== undefined || this.#attempt !== undefined
    this.#source = undefined
    this.#attempt = undefined
    if (!this.canReplace(failed)) {
      this.#isLost = true
    } else if (hasBegun) {
      if (!this.#sharesTokens) this.#buffer.cut(this.#buffer.tail().at)
      const attempt = { from: failed, to, giveUpMs: never, aside: [] }
      this.#begin(attempt, 'failure', this.#buffer.lastsUntilMs(this.#nowMs))
    } else if (!this.#sides[to].isWorking) this.#start(to)
  }

  #countDelay({ tokens }: P): void {
    if (this.#lateAfterMs === undefined) return
    if (this.#nowMs <= this.#lateAfterMs) {
      this.#lateAfterMs = undefined
      return
    }
    this.#migrations.at(-1)!.delayedTokens += tokens
    this.#lateAfterMs += (tokens * 1_000) / this.#plan.tokensPerS
  }
}

const sides: readonly Side[] = ['remote', 'local']
