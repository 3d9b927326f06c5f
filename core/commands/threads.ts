import { availableParallelism } from 'node:os'
import { z } from 'zod'

/** More than 256 help nowhere, and the runtime would start any number until memory is exhausted. */
export const threadsOption = z.int().min(1).max(256).default(Math.min(4, availableParallelism())).describe('threads per operator')
