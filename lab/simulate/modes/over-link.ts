import type { Answer, Carrier } from '../world/answer.ts'
import type { Mode } from '../world/mode.ts'
import { type SimulatedDevice, transfer } from '../world/simulated-device.ts'
import type { World } from '../world/world.ts'
import { textBytes } from './pice/text-bytes.ts'

/** What devices ask the cloud's model goes up their links as text, and the answers come down. An API's latencies include that. */
export function overLink(world: World, mode: Mode): Mode {
  if (world.server) return mode
  return {
    begin(answer) {
      const { device: index, promptTokens } = answer.request
      const device = index === undefined ? undefined : world.devices[index]!
      if (!device) return mode.begin(answer)
      const line = new DeviceLine(answer, device)
      line.send('up', promptTokens, () => {
        answer.carriedBy(line)
        mode.begin(answer)
      })
    },
  }
}

/** An answer's way to its device. Many answers wait: it has no functions of its own. */
class DeviceLine implements Carrier {
  readonly #answer: Answer
  readonly #device: SimulatedDevice

  constructor(answer: Answer, device: SimulatedDevice) {
    this.#answer = answer
    this.#device = device
  }

  carry(tokens: number, arrived: () => void): void {
    this.send('down', tokens, arrived)
  }

  send(direction: 'up' | 'down', tokens: number, arrived: () => void): void {
    transfer(this.#device, this.#answer, direction, textBytes(tokens), arrived)
  }
}
