import { AnswerController } from '../../../../core/policy/disco/answer-controller.ts'
import type { ControllerAction, ControllerInput, ControllerPlan, Piece } from '../../../../core/policy/disco/controller-plan.ts'
import type { Side } from '../../../../core/policy/disco/state.ts'
import { Alarm } from '../../kernel/alarm.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import type { SimulatedSide } from './simulated-side.ts'

/** What becomes of an answer. */
export interface DeliveryListener {
  /** The reader gets one more token. */
  delivered(): void
  /** All is delivered, or no side could go on. */
  ended(hasFailed: boolean): void
}

const token: Piece = { tokens: 1, isLast: false, border: 'word' }
const receivedFrom = (side: Side) => ({
  more: { kind: 'received', side, piece: token } as const,
  last: { kind: 'received', side, piece: { ...token, isLast: true } } as const,
})
/** The same for every token. */
const received = { local: receivedFrom('local'), remote: receivedFrom('remote') }

/** One answer of two sides on the virtual clock: the agent's own `AnswerController` decides, the sides are simulated. Begun once. */
export class TwoSidedAnswer {
  readonly controller: AnswerController<Piece>
  readonly #simulation: Simulation
  readonly #plan: ControllerPlan
  readonly #sides: Readonly<Partial<Record<Side, SimulatedSide>>>
  readonly #outputTokens: number
  readonly #listener: DeliveryListener
  /** Of the answer, up to the last one of each side. */
  readonly #written = { local: 0, remote: 0 }
  readonly #alarm: Alarm

  /** @param sides those of the plan @param outputTokens after which every side ends the answer */
  constructor(
    simulation: Simulation,
    plan: ControllerPlan,
    sides: Readonly<Partial<Record<Side, SimulatedSide>>>,
    outputTokens: number,
    listener: DeliveryListener,
  ) {
    this.controller = new AnswerController<Piece>(plan, true)
    this.#simulation = simulation
    this.#plan = plan
    this.#sides = sides
    this.#outputTokens = outputTokens
    this.#listener = listener
    this.#alarm = new Alarm(simulation, () => this.#handle({ kind: 'tick' }))
  }

  begin(): void {
    this.#handle({ kind: 'begin' })
  }

  /** Ends all work; nothing more is called. */
  abandon(): void {
    this.controller.handle({ kind: 'left' }, this.#simulation.nowMs)
    for (const side of Object.values(this.#sides)) side.stop()
    this.#alarm.set(undefined)
  }

  #handle(input: ControllerInput<Piece>): void {
    this.#act(this.controller.handle(input, this.#simulation.nowMs))
  }

  #act(actions: readonly ControllerAction<Piece>[]): void {
    for (const action of actions) {
      switch (action.kind) {
        case 'start':
          this.#start(action.side, action.after.length)
          break
        case 'pause':
        case 'resume':
        case 'stop':
          this.#sides[action.side]![action.kind]!()
          break
        case 'deliver':
          this.#listener.delivered()
          break
        case 'fail':
          this.#alarm.set(undefined)
          this.#listener.ended(true)
          return
      }
    }
    this.#alarm.set(this.controller.wakeMs)
    if (this.controller.isOver) this.#listener.ended(false)
  }

  #start(side: Side, afterTokens: number): void {
    const contextTokens = this.#plan.promptTokens + afterTokens
    this.#written[side] = afterTokens
    this.#sides[side]!.start({
      contextTokens,
      tokens: this.#outputTokens - afterTokens,
      token: () => this.#received(side),
      failed: () => this.#handle({ kind: 'failed', side }),
    })
  }

  #received(side: Side): void {
    this.#written[side] += 1
    this.#handle(received[side][this.#written[side] === this.#outputTokens ? 'last' : 'more'])
  }
}
