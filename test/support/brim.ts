import { menu } from '../../brim.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { execute } from '../../core/kit/cli/execute.ts'

/** Runs a command; its error is thrown, not printed. */
export const brim = (argv: readonly string[], io: Io): Promise<void> => execute(menu, argv, io)
