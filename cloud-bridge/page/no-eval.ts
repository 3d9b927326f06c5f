import { config } from 'zod'

// The page's policy forbids code from strings, which zod would try at the first schema.
config({ jitless: true })
