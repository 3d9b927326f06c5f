import { PackedDecoder } from '../device/packed-decoder.ts'
import { smallModelsOf } from '../device/small-models.ts'
import type { Answer } from '../world/answer.ts'
import type { Mode } from '../world/mode.ts'
import { type SimulatedDevice, transfer } from '../world/simulated-device.ts'
import type { World } from '../world/world.ts'
import { textBytes } from './pice/text-bytes.ts'

/** A device's small model answers alone: that of the device that asks; what a client of the cloud asks goes to the one with the least work. */
export function localMode(world: World): Mode {
  const answering = new LocalAnswers(world)
  return { begin: (answer) => answering.begin(answer) }
}

/** The answers that small models write by themselves. Mutable. */
export class LocalAnswers {
  readonly #world: World
  readonly #devices: readonly SimulatedDevice[]
  readonly #decoders = new Map<SimulatedDevice, PackedDecoder>()

  constructor(world: World) {
    this.#world = world
    this.#devices = world.devices.filter((device) => smallModelsOf(device, world).shapes.length > 0)
  }

  begin(answer: Answer): void {
    const { device } = answer.request
    const own = device === undefined ? undefined : this.#world.devices[device]!
    if (!own) this.#forClient(answer)
    else if (this.#devices.includes(own)) this.#write(answer, own, (tokens) => this.#deliver(answer, tokens))
    else answer.end('no small model')
  }

  /** A job `slm.generate`: its text is reported as it is written. */
  #forClient(answer: Answer): void {
    const [first, ...others] = this.#devices
    if (!first) {
      answer.end('no device')
      return
    }
    const loadOf = (device: SimulatedDevice) => this.#decoders.get(device)?.load ?? 0
    const device = others.reduce((best, each) => (loadOf(each) < loadOf(best) ? each : best), first)
    const send = (direction: 'up' | 'down', tokens: number, arrived: () => void) =>
      transfer(device, answer, direction, textBytes(tokens), arrived)
    this.#write(
      answer,
      device,
      (tokens) => send('up', tokens, () => this.#deliver(answer, tokens)),
      (start) => send('down', answer.request.promptTokens, start),
    )
  }

  #deliver(answer: Answer, tokens: number): void {
    answer.deliver(tokens)
    if (answer.tokens === answer.request.outputTokens) answer.end()
  }

  #write(answer: Answer, device: SimulatedDevice, wrote: (tokens: number) => void, after = (start: () => void) => start()): void {
    const { promptTokens, outputTokens } = answer.request
    const decoder = this.#decoderOf(device)
    after(() =>
      decoder.add({
        copiedTokens: 0,
        parts: [{ promptTokens, outputTokens }],
        streams: true,
        wrote(tokens) {
          // With the first token the prompt is computed, too.
          if (answer.work.deviceOutputTokens === 0) answer.work.devicePromptTokens += promptTokens
          answer.work.deviceOutputTokens += tokens
          wrote(tokens)
        },
        spent(joules) {
          answer.work.joules += joules
        },
      }),
    )
  }

  #decoderOf(device: SimulatedDevice): PackedDecoder {
    const { model, answersAtOnce } = this.#world.scenario.policies.local
    const { shapes } = smallModelsOf(device, this.#world)
    const shape = shapes.find(({ name }) => name === model) ?? shapes.at(-1)!
    const decoder = this.#decoders.get(device) ?? new PackedDecoder(device, shape, answersAtOnce)
    this.#decoders.set(device, decoder)
    return decoder
  }
}
