import type { CommandModule } from 'yargs'
import type { Io } from '../base/io.ts'
import { modelBuildCommand } from './model-build.ts'
import { modelInspectCommand } from './model-inspect.ts'
import { modelRunCommand } from './model-run.ts'
import { modelVerifyCommand } from './model-verify.ts'

/** `brim model …` */
export function modelCommand(io: Io): CommandModule {
  return {
    command: 'model <verb>',
    describe: 'bundles: build, inspect, verify, run',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim model <verb> [options]')
        .example('brim model build ./Qwen2.5-0.5B --split 2 --format int4 --out qwen', 'checkpoint → bundle')
        .example('brim model verify qwen', 'is it intact, and does this machine compute it right?')
        .example('brim model run qwen --prompt "What is a lamp?"', 'answer with the whole model here')
        .command(modelBuildCommand(io))
        .command(modelInspectCommand(io))
        .command(modelVerifyCommand(io))
        .command(modelRunCommand(io))
        .demandCommand(1, 'say what to do: brim model --help lists the verbs'),
    handler: () => {},
  }
}
