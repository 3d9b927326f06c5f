import type { ForgettingHistogram } from '../../../../core/policy/estimate/forgetting-histogram.ts'
import type { Answer } from '../../world/answer.ts'
import { type SimulatedDevice, transfer } from '../../world/simulated-device.ts'
import type { World } from '../../world/world.ts'
import { llmOf } from '../llm.ts'
import type { SimulatedRun, SimulatedSide } from './simulated-side.ts'

/** A request's head and options, and a token's id in it (DiSCo §4.3: 17 bits). */
const requestBytes = { head: 600, perToken: 3 }
/** One event of the stream. */
const eventBytes = 200

/** The cloud's own model, which a device asks over its link, as a side of one answer. Mutable. */
export class EngineSide implements SimulatedSide {
  readonly #world: World
  readonly #device: SimulatedDevice
  readonly #answer: Answer
  readonly #announced: ForgettingHistogram
  #run: SimulatedRun | undefined
  #leave = () => {}

  /** @param announced F as the bridge measures it, to which every start adds */
  constructor(world: World, device: SimulatedDevice, answer: Answer, announced: ForgettingHistogram) {
    this.#world = world
    this.#device = device
    this.#answer = answer
    this.#announced = announced
  }

  start(run: SimulatedRun): void {
    this.#run = run
    this.#leave = () => {}
    const { head, perToken } = requestBytes
    transfer(this.#device, this.#answer, 'up', head + perToken * run.contextTokens, () => {
      if (this.#run === run) this.#ask(run)
    })
  }

  stop(): void {
    if (!this.#run) return
    this.#run = undefined
    this.#world.simulation.after(this.#device.link.rttMs / 2, this.#leave)
  }

  #ask(run: SimulatedRun): void {
    const { simulation } = this.#world
    const { sharedTokens, tokensPerS } = this.#answer.request
    const askedMs = simulation.nowMs
    let hasBegun = false
    const arrived = (act: () => void) =>
      transfer(this.#device, this.#answer, 'down', eventBytes, () => {
        if (this.#run === run) act()
      })
    this.#leave = llmOf(this.#world).answer({
      promptTokens: run.contextTokens,
      outputTokens: run.tokens,
      cachedTokens: sharedTokens,
      tokensPerS,
      token: () => {
        if (!hasBegun) this.#announced.record(simulation.nowMs - askedMs)
        hasBegun = true
        arrived(run.token)
      },
      refused: () =>
        arrived(() => {
          this.#run = undefined
          run.failed()
        }),
    })
  }
}
