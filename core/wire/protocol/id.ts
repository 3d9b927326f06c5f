import { z } from 'zod'
import { idPattern } from './topics.ts'

/** Name of a device, bridge, fleet, group, login or key. */
export const Id = z.string().regex(idPattern, 'must be lower-case letters, digits, - and _, at most 64')
