import { HatMachine } from '../../core/policy/hat/hat-machine.ts'
import type { HatRules } from '../../core/policy/hat/hat-steps.ts'
import type { Machine } from '../../core/policy/machine.ts'
import type { CreateMachine } from './replay.ts'

/** The machines that are recorded, by name. */
export const machines: Readonly<Record<string, CreateMachine>> = {
  hat: (settings) => new HatMachine(settings as HatRules) as Machine<unknown, unknown>,
}
