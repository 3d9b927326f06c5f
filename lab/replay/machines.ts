import type { CreateMachine } from './replay.ts'

/** The machines that are recorded, by name. */
export const machines: Readonly<Record<string, CreateMachine>> = {}
