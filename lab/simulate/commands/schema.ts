import { defineCommand } from '../../../core/kit/cli/command.ts'
import { scenarioSchema } from '../scenario/schema.ts'

export const command = defineCommand({
  examples: [
    ['brim simulate schema > scenario.schema.json', 'then an editor completes a file that begins with the line below'],
    [
      '# yaml-language-server: $schema=./scenario.schema.json',
      'the first line of a scenario file, for editors with that extension',
    ],
  ],
  options: {},
  run({ json }, io) {
    io.out(JSON.stringify(scenarioSchema(), null, json ? 0 : 2))
  },
})
