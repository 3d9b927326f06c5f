import { writeFileSync } from 'node:fs'
import { generatedDocs } from './generated-docs.ts'

// `npm run docs`
for (const { file, text } of await generatedDocs()) writeFileSync(file, text)
