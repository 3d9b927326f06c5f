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
    const { device: index, promptTokens, outputTokens } = answer.request
    const own = index === undefined ? undefined : this.#world.devices[index]!
    if (own && !this.#devices.includes(own)) return void answer.end('no small model')
    const device = own ?? this.#leastLoaded()
    if (!device) return void answer.end('no device')
    const decoder = this.#decoderOf(device)
    // What a client asks is a job `slm.generate`: its text is reported as it is written.
    const send = (direction: 'up' | 'down', tokens: number, arrived: () => void) =>
      own ? arrived() : transfer(device, answer, direction, textBytes(tokens), arrived)
    send('down', promptTokens, () =>
      decoder.add({
        copiedTokens: 0,
        parts: [{ promptTokens, outputTokens }],
        streams: true,
        wrote(tokens) {
          // With the first token the prompt is computed, too.
          if (answer.work.deviceOutputTokens === 0) answer.work.devicePromptTokens += promptTokens
          answer.work.deviceOutputTokens += tokens
          send('up', tokens, () => {
            answer.deliver(tokens)
            if (answer.tokens === outputTokens) answer.end()
          })
        },
        spent(joules) {
          answer.work.joules += joules
        },
      }),
    )
  }

  #leastLoaded(): SimulatedDevice | undefined {
    const loadOf = (device: SimulatedDevice) => this.#decoders.get(device)?.load ?? 0
    const [first, ...others] = this.#devices
    return first && others.reduce((best, each) => (loadOf(each) < loadOf(best) ? each : best), first)
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
