import { CloudMeter } from '../../../core/policy/pice/cloud-meter.ts'
import type { CloudSpeed } from '../../../core/policy/pice/state.ts'
import type { EngineAnswer } from '../serving/engine.ts'
import type { Answer } from '../world/answer.ts'
import { leastLoaded, type World } from '../world/world.ts'

/** An answer has cost the LLM so many tokens. */
export function charge({ scenario }: World, { work }: Answer, promptTokens: number, outputTokens: number): void {
  const { prompt = 0, output = 0 } = (scenario.server ?? scenario.cloud)?.dollarsPerToken ?? {}
  work.serverPromptTokens += promptTokens
  work.serverOutputTokens += outputTokens
  work.dollars += prompt * promptTokens + output * outputTokens
}

const llms = new WeakMap<World, SimulatedLlm>()

/** The LLM of a world, which all its modes share. */
export function llmOf(world: World): SimulatedLlm {
  const llm = llms.get(world) ?? new SimulatedLlm(world)
  llms.set(world, llm)
  return llm
}

/** The cloud's model as answers use it: so many at once, and measured where plans go by its speed (f(l) of PICE). Mutable. */
export class SimulatedLlm {
  readonly #world: World
  readonly #meter: CloudMeter | undefined
  readonly #maxRunning: number
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(world: World) {
    const { workload, cloud, policies } = world.scenario
    this.#world = world
    this.#maxRunning = cloud?.answersAtOnce === undefined ? Number.POSITIVE_INFINITY : cloud.answersAtOnce * cloud.replicas
    const isSketching = workload.modes.some(({ mode }) => mode === 'pice' || mode === 'static') || policies.disco.sketches
    if (isSketching) this.#meter = new CloudMeter()
  }

  /** For an answer that is asked for now; undefined before it has answered anything, or without plans. */
  get speed(): CloudSpeed | undefined {
    return this.#meter?.speed
  }

  /** @returns stops it; nothing more is called */
  answer(answer: EngineAnswer): () => void {
    // Nothing stands between an engine and a hundred thousand answers that wait for it.
    if (!this.#meter && this.#maxRunning === Number.POSITIVE_INFINITY) return leastLoaded(this.#world).answer(answer)
    const metered = this.#meter?.begin(this.#nowMs)
    const { promptTokens, cachedTokens, outputTokens, tokensPerS } = answer
    let left = outputTokens
    let stop: (() => void) | undefined
    const over = () => {
      metered?.ended()
      this.#running -= 1
      this.#next()
    }
    const start = () => {
      this.#running += 1
      stop = leastLoaded(this.#world).answer({
        promptTokens,
        cachedTokens,
        outputTokens,
        tokensPerS,
        token: () => {
          metered?.tokens(1, this.#nowMs)
          left -= 1
          if (left === 0) over()
          answer.token()
        },
        refused() {
          left = 0
          over()
          answer.refused()
        },
      })
    }
    if (this.#running < this.#maxRunning) start()
    else this.#waiting.push(start)
    return () => {
      if (left === 0) return
      left = 0
      if (stop) {
        stop()
        return over()
      }
      metered?.ended()
      this.#waiting.splice(this.#waiting.indexOf(start), 1)
    }
  }

  get #nowMs(): number {
    return this.#world.simulation.nowMs
  }

  #next(): void {
    if (this.#running < this.#maxRunning) this.#waiting.shift()?.()
  }
}
