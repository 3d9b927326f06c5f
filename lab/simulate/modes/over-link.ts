import type { Mode } from '../world/mode.ts'
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
      const send = (direction: 'up' | 'down', tokens: number, arrived: () => void) => {
        answer.work.joules += device.energy.radio(device.link.send(direction, textBytes(tokens), arrived))
      }
      send('up', promptTokens, () => {
        answer.carriedBy((tokens, arrived) => send('down', tokens, arrived))
        mode.begin(answer)
      })
    },
  }
}
