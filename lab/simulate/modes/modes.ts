import type { ModeName } from '../scenario/scenario.ts'
import type { Mode } from '../world/mode.ts'
import type { World } from '../world/world.ts'
import { cloudMode } from './cloud.ts'
import { dispatchMode } from './disco/dispatch.ts'

/** What makes each way of answering, for one world. */
export const modes: Readonly<Partial<Record<ModeName, (world: World) => Mode>>> = {
  cloud: cloudMode,
  race: (world) => dispatchMode(world, 'fast'),
  cheap: (world) => dispatchMode(world, 'cheap'),
  auto: (world) => dispatchMode(world, 'auto'),
}
