import { z } from 'zod'
import { nonEmpty, off } from '../../core/kit/base/setting-kinds.ts'

export const despiteLoadOption = off.meta({
  description: 'print figures although other processes disturb the measurement',
  conflicts: 'save',
})

/** A path or another text that is not empty. */
export const textOption = (description: string, fallback: string) => nonEmpty.optional().meta({ description, fallback })

/** @param what the names are: 'methods to compare' */
export const namesOption = <Name extends string>(what: string, names: readonly Name[]) =>
  z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(z.enum(names, `must be a list of ${names.join(', ')}`)))
    .optional()
    .meta({ description: `${what}, separated by commas: ${names.join(',')}`, fallback: 'all' })

export const seedsOption = (fallback: string) => z.int().min(1).optional().meta({ description: 'number of seeds', fallback })

/** The names that the command line gives, all without any. */
export const onlyNamed = <Name>(all: readonly Name[], given: readonly Name[] | undefined): Name[] =>
  all.filter((name) => given?.includes(name) ?? true)

/** Seeds from 1 on where the command line gives their number, else as planned. */
export const seedsFrom = (count: number | undefined, planned: readonly number[]): readonly number[] =>
  count === undefined ? planned : Array.from({ length: count }, (_, i) => i + 1)
