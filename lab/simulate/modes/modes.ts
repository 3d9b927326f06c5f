import type { ModeName } from '../scenario/mode-name.ts'
import type { Mode } from '../world/mode.ts'
import type { World } from '../world/world.ts'
import { cloudMode } from './cloud.ts'
import { dispatchMode } from './disco/dispatch.ts'
import { splitMode } from './hat/modes.ts'
import { localMode } from './local.ts'
import { overLink } from './over-link.ts'
import { sketchMode } from './pice/sketch-mode.ts'
import { routingMode } from './routing.ts'

/** What makes each way of answering, for one world. */
export const modes: Readonly<Record<ModeName, (world: World) => Mode>> = {
  cloud: (world) => overLink(world, cloudMode(world)),
  local: localMode,
  race: (world) => dispatchMode(world, 'fast'),
  cheap: (world) => dispatchMode(world, 'cheap'),
  auto: (world) => dispatchMode(world, 'auto'),
  private: (world) => dispatchMode(world, 'private'),
  'auto-private': (world) => dispatchMode(world, 'auto-private'),
  hat: (world) => splitMode(world, 'hat'),
  'u-shape': (world) => splitMode(world, 'u-shape'),
  'u-shape-lean': (world) => splitMode(world, 'u-shape-lean'),
  'u-medusa': (world) => splitMode(world, 'u-medusa'),
  'u-sarathi': (world) => splitMode(world, 'u-sarathi'),
  pice: (world) => overLink(world, sketchMode(world, 'dynamic')),
  static: (world) => overLink(world, sketchMode(world, 'static')),
  routing: routingMode,
}
